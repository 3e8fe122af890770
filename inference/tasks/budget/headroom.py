"""Headroom planner: rounds go where the surrogate expects the network to gain most a second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...config import OneShotConfig
from ...strategies.checks import OneShotConfigError
from ..planner import Round
from ..search import TaskSearch
from .base import BudgetedPlanner
from .registry import PlannerConfig


@dataclass(frozen=True)
class HeadroomConfig(PlannerConfig):
    """Settings of the headroom planner; conf/search/planner/headroom.yaml says what each field means."""

    name: str = "headroom"
    least_saving: float | None = None

    def __post_init__(self) -> None:
        if self.least_saving is not None and not 0 < self.least_saving < 1:
            raise OneShotConfigError(
                f"search.planner.least_saving={self.least_saving}: must be over 0 and below 1, such as "
                "0.001, or null"
            )


class HeadroomPlanner(BudgetedPlanner):
    """Plans the next round for the task of the highest expected saving a second.

    FamilySeer's potential is the latency alone (section 5.2). Here it is multiplied by the share that the
    surrogate expects another batch to save, and divided by the seconds that the batch takes. A task without
    candidates left over is judged by what its last rounds saved.

    With `least_saving` it ends before `top_k` programs a task are measured, where the saving is too small for
    its seconds; each task has a quick round then, before any has a second one.
    """

    Config = HeadroomConfig

    def __init__(self, config: OneShotConfig, *, breadth_first: bool = False) -> None:
        """See TurnPlanner."""
        self._least_saving = config.planner.least_saving
        super().__init__(config, breadth_first=breadth_first or self._least_saving is not None)

    def _choose(self, free: Sequence[TaskSearch]) -> Round | None:
        best = max(free, key=self._saving_rate)
        return None if self._saves_too_little(best) else self._round(best)

    def _share_of_plan(self) -> float:
        left = [search for search in self._searches if self._is_open(search)]
        begun = all(search.rounds and not search.busy for search in left)
        return 1.0 if begun and all(map(self._saves_too_little, left)) else super()._share_of_plan()

    def _saves_too_little(self, search: TaskSearch) -> bool:
        """Whether a second of the task's next batch is not worth it."""
        if self._least_saving is None:
            return False
        saved_s = self._saving_rate(search) / self._config.per_round
        return saved_s < self._least_saving * sum(one.network_s for one in self._searches)

    def _saving_rate(self, search: TaskSearch) -> float:
        """Seconds of the network's latency that a second is expected to save."""
        gain = search.loop.expected_gain(self._config.per_round)
        share = search.progress.expected_gain if gain is None else gain
        return self._stake_s(search) * share / search.program_s
