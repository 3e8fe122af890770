"""Base of planners that spend one budget of programs on all tasks of a run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from ...config import OneShotConfig
from ...strategies.loop import RoundBudget
from ..planner import Round, TaskPlanner
from ..search import TaskSearch
from ..shares import QUICK_ROOM


class BudgetedPlanner(TaskPlanner):
    """Plans rounds until `top_k` programs a task are measured, wherever they went.

    A task gets a first round before any gets a second one. A search that has nothing more to propose, or
    whose surrogate expects nothing more, leaves its programs to others. A task of an earlier run that was
    searched to its end is searched again only with `extra_rounds`.
    """

    completes_all = True

    def __init__(self, config: OneShotConfig, *, breadth_first: bool = False) -> None:
        """`breadth_first` makes first rounds quick, as a time budget asks for."""
        self._config = config
        self._breadth_first = breadth_first
        self._searches: Sequence[TaskSearch] = ()
        self._budget = 0
        self._done = 0.0

    def begin(self, searches: Sequence[TaskSearch]) -> None:
        """See TaskPlanner."""
        self._searches = searches
        self._budget = sum(self._programs(search) for search in searches if self._is_open(search))
        self._done = 0.0

    def next_round(self, preferred: Sequence[TaskSearch], others: Sequence[TaskSearch]) -> Round | None:
        """See TaskPlanner."""
        if self._left < 1:
            return None
        for searches in (preferred, [*preferred, *others]):
            free = [search for search in searches if self._is_open(search)]
            unsearched = [search for search in free if not search.rounds]
            if unsearched:
                return self._round(max(unsearched, key=_stake))
            if free and (chosen := self._choose(free)) is not None:
                return chosen
        return None

    @abstractmethod
    def _choose(self, free: Sequence[TaskSearch]) -> Round | None:
        """The next round of one of these tasks, each of which had a round; None waits for others."""

    def share_done(self) -> float:
        """See TaskPlanner; it never falls."""
        spent = 1 - self._left / self._budget if self._budget else 1.0
        ended = not any(map(self._is_open, self._searches))
        self._done = max(self._done, 1.0 if ended else min(spent, 1.0))
        return self._done

    def _programs(self, search: TaskSearch) -> int:
        """Programs that a task adds to the budget; one of an interrupted run adds what is left of its own."""
        config = self._config
        searched = min(search.full_rounds, config.rounds) * config.per_round if search.known_s else 0
        return max(0, config.top_k - searched) + config.extra_rounds * config.per_round

    def _is_open(self, search: TaskSearch) -> bool:
        if search.over:
            return False
        return not search.complete_before or self._config.extra_rounds > 0

    @property
    def _left(self) -> int:
        """Programs of the budget that are neither measured nor about to be."""
        measured = sum(len(search.loop.known) for search in self._searches)
        planned = sum(search.budget.measured for search in self._searches if search.busy)
        return self._budget - measured - planned

    def _round(self, search: TaskSearch, programs: int | None = None) -> Round:
        """A round of a task with up to `programs`, by default those of any round."""
        room = max(1, min(programs or self._config.per_round, self._left))
        quick = self._breadth_first and not search.rounds and search.known_s is None
        return Round(search, RoundBudget(min(room, QUICK_ROOM) if quick else room, quick))


def _stake(search: TaskSearch) -> tuple[float, float]:
    """Seconds of the network's latency that a task counts with, then its operations."""
    return min(search.network_s, 1e6), search.task.weight * search.task.flops
