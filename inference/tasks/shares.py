"""Default planner: rounds go by each task's share of the network's latency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..config import OneShotConfig
from ..strategies.loop import RoundBudget
from .budget.registry import PlannerConfig
from .gains import most_promising
from .planner import Round, TaskPlanner
from .search import TaskSearch

QUICK_ROOM = 4
"""Candidates measured in a quick round."""


@dataclass(frozen=True)
class SharesConfig(PlannerConfig):
    """See PlannerConfig."""

    name: str = "shares"


class LatencySharePlanner(TaskPlanner):
    """Plans rounds by latency share.

    Each task gets a first round before any gets a second, the largest share first, by operations where no
    latency is known. After r rounds a task gets another only if its share is at least
    `min_latency_share` * r / number of tasks. Extra rounds go to the task of the highest saving rate.
    """

    Config = SharesConfig

    def __init__(self, config: OneShotConfig, *, breadth_first: bool = False) -> None:
        """`breadth_first` gives each task a quick round first, as a time budget asks for."""
        self._config = config
        self._breadth_first = breadth_first
        self._searches: Sequence[TaskSearch] = ()
        self._done = 0.0

    def begin(self, searches: Sequence[TaskSearch]) -> None:
        """See TaskPlanner."""
        self._searches = searches
        self._done = 0.0

    def next_round(self, preferred: Sequence[TaskSearch], others: Sequence[TaskSearch]) -> Round | None:
        """See TaskPlanner."""
        every = [*preferred, *others]
        for searches in (preferred, every):
            if due := [search for search in searches if self._is_due(search)]:
                return self._round(min(due, key=self._order))
        if not self._config.extra_rounds and not self._breadth_first:
            return None
        for searches in (preferred, every):
            more = [search for search in searches if search.rounds < self._most_rounds(search)]
            chosen = most_promising([search.progress for search in more])
            if chosen is not None:
                return self._round(more[chosen])
        return None

    def share_done(self) -> float:
        """See TaskPlanner; it never falls, although a task's share may grow while others get faster."""
        left = sum(self._share_left(search) for search in self._searches)
        self._done = max(self._done, 1 - left / max(len(self._searches), 1))
        return self._done

    def _share_left(self, search: TaskSearch) -> float:
        """Share of a task's own rounds that is not done, as far as it gets them."""
        return 1 - search.rounds / self._own_rounds(search) if self._is_due(search) else 0.0

    def _order(self, search: TaskSearch) -> tuple[float, ...]:
        """Key by which tasks follow each other, the least first."""
        return search.rounds, -min(self._stake_s(search), 1e6), -search.task.weight * search.task.flops

    def _stake_s(self, search: TaskSearch) -> float:
        """Seconds of the network's latency that a task counts with."""
        return search.network_s

    def _round(self, search: TaskSearch) -> Round:
        quick = self._breadth_first and not search.rounds and search.known_s is None
        room = self._config.room(search.full_rounds)
        return Round(search, RoundBudget(min(room, QUICK_ROOM) if quick else room, quick))

    def _own_rounds(self, search: TaskSearch) -> int:
        """Rounds of this run that a task gets before extra ones."""
        if search.known_s is None:
            return 1 if self._breadth_first else self._config.rounds
        if self._breadth_first or search.earlier_rounds is None:
            return 0
        return max(0, self._config.rounds - search.earlier_rounds)

    def _is_due(self, search: TaskSearch) -> bool:
        """Whether a task gets another round of its own."""
        if search.over or search.rounds >= self._own_rounds(search):
            return False
        if math.isinf(search.best_s) or not search.full_rounds or len(self._searches) == 1:
            return True
        return self._stake_s(search) >= self._config.min_latency_share * search.full_rounds * self._even_s()

    def _even_s(self) -> float:
        """Seconds of the network's latency that each task would have if all had the same."""
        tuned_s = [s.network_s for s in self._searches if math.isfinite(s.best_s) and s.task.weight]
        return sum(tuned_s) / max(len(tuned_s), 1)

    def _most_rounds(self, search: TaskSearch) -> int:
        """Rounds of a task in this run at most.

        A schedule of the database is searched on only where an earlier run was stopped, or with extra rounds.
        """
        if search.known_s is not None and not self._config.extra_rounds:
            if search.complete_before:
                return 0
            return max(0, self._config.rounds - search.full_rounds + search.rounds)
        return self._config.rounds + self._config.extra_rounds + self._breadth_first
