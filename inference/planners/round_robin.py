"""Round-robin planner: gives every task the same number of rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..search.task_search import TaskSearch
from .base import Round
from .budget import BudgetedPlanner
from .config import PlannerConfig


@dataclass(frozen=True)
class RoundRobinConfig(PlannerConfig):
    """See PlannerConfig."""

    name: str = "round_robin"


class RoundRobinPlanner(BudgetedPlanner):
    """Plans the next round for the task with the fewest rounds."""

    Config = RoundRobinConfig

    def _choose(self, free: Sequence[TaskSearch]) -> Round:
        return self._round(min(free, key=lambda search: search.rounds))
