"""Default planner: distributes rounds by each task's share of the network's latency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..search.task_search import TaskSearch
from .base import Round
from .config import PlannerConfig
from .expected_gain import most_promising
from .precedence import Stage
from .turn_planner import TurnPlanner


@dataclass(frozen=True)
class SharesConfig(PlannerConfig):
    """See PlannerConfig."""

    name: str = "shares"


class LatencySharePlanner(TurnPlanner):
    """Plans rounds by latency share.

    Each task gets a first round before any task gets a second one. The task with the largest share goes
    first; the planner compares operations if the latency is unknown. After r rounds, a task gets another
    round only if its share is at least `min_latency_share` * r / number of tasks, and if its Precedence says
    that it deserves more. Extra rounds go to the task with the highest saving rate.
    """

    Config = SharesConfig

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

    def _own_share_left(self, search: TaskSearch) -> float:
        """See TurnPlanner; the share refers to the rounds of its own that the task gets."""
        return 1 - search.rounds / self._own_rounds(search) if self._is_due(search) else 0.0

    def _share_of_plan(self) -> float:
        return 1 - sum(map(self.share_left, self._searches)) / max(len(self._searches), 1)

    def _order(self, search: TaskSearch) -> tuple[float, ...]:
        """Sort key of tasks; the task with the lowest key comes first."""
        first, stake_s = self._precedence.comes_first(search), self._precedence.stake_s(search)
        return not first, search.rounds, -min(stake_s, 1e6), -search.operations

    def _round(self, search: TaskSearch) -> Round:
        return self._round_of(search, self._config.room(search.full_rounds))

    def _own_rounds(self, search: TaskSearch) -> float:
        """Number of rounds of this run that a task gets before extra rounds."""
        rounds = self._rounds_left(search) + self._precedence.spent_in_vain(search).rounds
        return min(rounds, self._precedence.rounds(search))

    def _rounds_left(self, search: TaskSearch) -> int:
        """Number of rounds that the settings leave for a task in this run."""
        if search.known_s is None:
            return 1 if self._breadth_first else self._config.rounds
        if self._breadth_first or search.earlier_rounds is None:
            return 0
        return max(0, self._config.rounds - search.earlier_rounds)

    def _is_due(self, search: TaskSearch) -> bool:
        """Whether a task is due another round of its own or a round as a child."""
        stage = self._precedence.stage(search)
        if stage is not Stage.OWN:
            return stage is Stage.STARTING
        if search.over or search.rounds >= self._own_rounds(search):
            return False
        if math.isinf(search.best_s) or not search.full_rounds or len(self._searches) == 1:
            return True
        if not self._precedence.deserves_more(search):
            return False
        even_s = self._precedence.even_s(self._searches)
        least_s = self._config.min_latency_share * search.full_rounds * even_s
        return self._precedence.stake_s(search) >= least_s

    def _most_rounds(self, search: TaskSearch) -> int:
        """Maximum number of rounds of a task in this run.

        The search of a task with a schedule in the database continues only if an earlier run was stopped, or
        with extra rounds.
        """
        stage = self._precedence.stage(search)
        if stage is Stage.UNUSED or stage.is_pending:
            return 0
        if search.known_s is not None and not self._config.extra_rounds:
            if search.complete_before:
                return 0
            return max(0, self._config.rounds - search.full_rounds + search.rounds)
        return self._config.rounds + self._config.extra_rounds + self._breadth_first
