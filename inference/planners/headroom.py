"""Headroom planner: chooses the task with the highest saving that the surrogate expects per second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..search.task_search import TaskSearch
from .base import Round
from .budget import BudgetedPlanner
from .config import PlannerConfig


@dataclass(frozen=True)
class HeadroomConfig(PlannerConfig):
    """See PlannerConfig."""

    name: str = "headroom"


class HeadroomPlanner(BudgetedPlanner):
    """Plans the next round for the task with the highest expected saving per second.

    In FamilySeer the potential of a task is its latency alone (section 5.2). This planner multiplies the
    latency by the share that the surrogate expects another batch to save, and divides it by the duration of
    the batch. If a task has no candidates left, the planner uses the savings of its last rounds.
    """

    Config = HeadroomConfig

    def _choose(self, free: Sequence[TaskSearch]) -> Round:
        return self._round(max(free, key=self._saving_rate))

    def _saving_rate(self, search: TaskSearch) -> float:
        """Seconds of the network's latency that one second of searching is expected to save."""
        gain = search.loop.expected_gain(self._config.per_round)
        share = search.progress.expected_gain if gain is None else gain
        return self._stake_s(search) * share / search.program_s
