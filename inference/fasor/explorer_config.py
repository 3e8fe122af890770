"""Settings of the exploration strategy."""

from __future__ import annotations

from dataclasses import dataclass

from ...models.architectures.explorer import MODES
from ...models.checkpoints.shipped import AUTO
from ..search.settings_checks import OneShotConfigError
from ..strategies.base import StrategyConfig


@dataclass(frozen=True)
class ExplorationConfig(StrategyConfig):
    """Settings of the search by a deep Q-network; conf/search/strategy/dqn.yaml documents each field."""

    name: str = "dqn"
    checkpoint: str = AUTO
    environment: str = "cpu-draft"
    mode: str = "high_efficiency"
    candidates: int = 64
    iterations: int = 1
    patience: int = 2
    draws: int = 16
    walks: int = 1
    epsilon: float = 0.05

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise OneShotConfigError(f"search.strategy.mode={self.mode}: use one of {', '.join(MODES)}")
        self.check_at_least({"candidates": 1, "iterations": 1, "patience": 1, "draws": 1, "walks": 1})
        self.check_shares("epsilon")
