"""Headroom planner: rounds go where the surrogate expects the network to gain most a second."""

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
    """Plans the next round for the task of the highest expected saving a second.

    FamilySeer's potential is the latency alone (section 5.2). Here it is multiplied by the share that the
    surrogate expects another batch to save, and divided by the seconds that the batch takes. A task without
    candidates left over is judged by what its last rounds saved.
    """

    Config = HeadroomConfig

    def _choose(self, free: Sequence[TaskSearch]) -> Round:
        return self._round(max(free, key=self._saving_rate))

    def _saving_rate(self, search: TaskSearch) -> float:
        """Seconds of the network's latency that a second is expected to save."""
        gain = search.loop.expected_gain(self._config.per_round)
        share = search.progress.expected_gain if gain is None else gain
        return self._stake_s(search) * share / search.program_s
