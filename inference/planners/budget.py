"""Base of planners that spend one budget of programs on all tasks of a run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from ..search.task_search import TaskSearch
from .base import Round
from .precedence import Precedence, Stage
from .turn_planner import TurnPlanner


class BudgetedPlanner(TurnPlanner):
    """Plans rounds until `top_k` programs a task are measured, wherever they went.

    A task gets a first round before any gets a second one. A search that has nothing more to propose, or
    whose surrogate expects nothing more, leaves its programs to others. A task of an earlier run that was
    searched to its end is searched again only with `extra_rounds`.

    A task that starts from others adds what it measures as a child, and one whose rounds are limited those of
    its rounds. Programs are kept back for children that wait: their parents are settled once they had their
    own programs, or once nothing but these is left. A child that had its rounds takes part like any task.
    """

    @property
    def completes_all(self) -> bool:
        """See TaskPlanner."""
        return True

    def begin(self, searches: Sequence[TaskSearch], precedence: Precedence | None = None) -> None:
        """See TurnPlanner."""
        super().begin(searches, precedence)
        self._before = {search: self._searched(search) for search in searches if self._takes_part(search)}
        """Programs that earlier runs measured of each task that adds to the budget."""

    def next_round(self, preferred: Sequence[TaskSearch], others: Sequence[TaskSearch]) -> Round | None:
        """See TaskPlanner."""
        left = self._left
        for searches in (preferred, [*preferred, *others]):
            free = [search for search in searches if self._is_open(search) and not self._waits(search)]
            if first := [search for search in free if self._needs_first(search, left)]:
                chosen = max(first, key=lambda search: (not search.rounds, *self._stake(search)))
                return self._round_of(chosen, max(1, min(self._config.per_round, left)))
            if free and self._left_for_turns >= 1 and (planned := self._choose(free)) is not None:
                return planned
        return None

    @abstractmethod
    def _choose(self, free: Sequence[TaskSearch]) -> Round | None:
        """The next round of one of these tasks, each of which had a round; None waits for others."""

    def _own_share_left(self, search: TaskSearch) -> float:
        """See TurnPlanner: of the programs that a task adds to the budget."""
        stage, own = self._precedence.stage(search), self._programs(search)
        if stage is not Stage.OWN or not own or not self._is_open(search) or self._left_for_turns < 1:
            return 0.0
        return max(0.0, 1 - len(search.loop.known) / own)

    def _share_of_plan(self) -> float:
        if not self._budget or not any(map(self._is_open, self._searches)):
            return 1.0
        return 1 - self._left / self._budget

    def _searched(self, search: TaskSearch) -> int:
        """Programs that an earlier run measured of a task, by its rounds."""
        return min(search.full_rounds, self._config.rounds) * self._config.per_round if search.known_s else 0

    def _programs(self, search: TaskSearch) -> int:
        """Programs that a task adds to the budget; one of an interrupted run adds what is left of its own."""
        if search not in self._before:
            return 0
        config, before = self._config, self._before[search]
        if (as_child := self._precedence.programs(search)) is not None:
            return max(0, as_child - before)
        own = max(0, config.top_k - before) + config.extra_rounds * config.per_round
        spent = self._precedence.spent_in_vain(search)
        rounds = self._precedence.rounds(search) - spent.rounds
        return spent.programs + int(min(own, rounds * config.per_round))

    def _takes_part(self, search: TaskSearch) -> bool:
        """Whether earlier runs leave something to search, and this one has not come to the end of it."""
        return not search.over and (not search.complete_before or self._config.extra_rounds > 0)

    def _is_open(self, search: TaskSearch) -> bool:
        return self._takes_part(search) and self._precedence.stage(search) is not Stage.UNUSED

    def _waits(self, search: TaskSearch) -> bool:
        return self._precedence.stage(search) is Stage.WAITING

    def _needs_first(self, search: TaskSearch, left: int) -> bool:
        """Whether a task's first round of this run, or one as a child, is next."""
        stage = self._precedence.stage(search)
        if stage is not Stage.OWN:
            return stage is Stage.STARTING
        return search.rounds == self._precedence.spent_in_vain(search).rounds and left >= 1

    @property
    def _budget(self) -> int:
        """Programs of the run; a task that turns out to have no use of its parent adds its own to it."""
        return sum(map(self._programs, self._before))

    @property
    def _left(self) -> int:
        """Programs of the budget that are neither measured nor about to be."""
        measured = sum(len(search.loop.known) for search in self._searches)
        planned = sum(search.flight.budget.measured for search in self._searches if search.busy)
        return self._budget - measured - planned

    @property
    def _left_for_turns(self) -> int:
        """Programs that are left beside those of children to come."""
        return self._left - sum(map(self._precedence.programs_to_come, self._before))

    def _round(self, search: TaskSearch, programs: int | None = None) -> Round:
        """A round of a task with up to `programs`, by default those of any round."""
        return self._round_of(search, max(1, min(programs or self._config.per_round, self._left_for_turns)))

    def _stake(self, search: TaskSearch) -> tuple[float, float]:
        """Seconds of the network's latency that a task counts with, then its operations."""
        return min(self._stake_s(search), 1e6), search.operations

    def _stake_s(self, search: TaskSearch) -> float:
        return self._precedence.stake_s(search)
