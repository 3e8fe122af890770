"""Gradient planner: the rule of MetaSchedule's and Ansor's task scheduler."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..search.settings_checks import OneShotConfigError
from ..search.task_search import TaskSearch
from .base import Round
from .budget import BudgetedPlanner
from .config import PlannerConfig

WINDOW = 3
"""Number of rounds over which the recent saving of a task is averaged, as in MetaSchedule."""


@dataclass(frozen=True)
class GradientConfig(PlannerConfig):
    """Weights of the gradient rule; conf/search/planner/gradient.yaml describes the fields."""

    name: str = "gradient"
    alpha: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise OneShotConfigError(f"search.planner.alpha={self.alpha}: must be in [0, 1]")


class GradientPlanner(BudgetedPlanner):
    """Plans the next round for the task with the steepest expected decrease of the network's latency.

    The decrease is a weighted sum. The saving of the last rounds has the weight `alpha`. The current latency
    divided by the number of rounds has the weight `1 - alpha`, as if the latency of a task could reach zero.
    """

    Config = GradientConfig

    def _choose(self, free: Sequence[TaskSearch]) -> Round:
        return self._round(max(free, key=self._expected_fall_s))

    def _expected_fall_s(self, search: TaskSearch) -> float:
        """Seconds of the network's latency that the next round is expected to save."""
        history_s = search.had.history_s or [search.best_s]
        if math.isinf(history_s[-1]):
            return math.inf
        share = gradient(history_s, self._config.planner.alpha) / history_s[-1]
        return self._stake_s(search) * share


def gradient(history_s: Sequence[float], alpha: float) -> float:
    """Seconds that the next round is expected to save, computed from the best latency after each round.

    The result is inf if no program of the task ran.
    """
    best, rounds = history_s[-1], len(history_s)
    if math.isinf(best):
        return math.inf
    window = max(1, min(rounds - 1, WINDOW))
    before = history_s[-1 - window] if rounds > window else best
    saved = (before - best) / window if math.isfinite(before) else best
    return alpha * saved + (1 - alpha) * best / rounds
