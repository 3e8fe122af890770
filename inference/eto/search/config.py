"""Settings of the reuse strategy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...search.settings_checks import OneShotConfigError
from ...strategies.base import StrategyConfig
from ...strategies.registry import strategy_config

BY_MODEL, BY_MEASURING = RANKS = ("model", "paper")
"""Values of `rank`; conf/search/strategy/reuse.yaml documents them."""


@dataclass(frozen=True)
class ReuseConfig(StrategyConfig):
    """Settings of the search by a parent's program; conf/search/strategy/reuse.yaml documents each field.

    `backend` is the strategy for tasks without a parent. It is a name, a mapping with `name` and settings, or
    a `Config`.
    """

    name: str = "reuse"
    rank: str = BY_MODEL
    one_core_flops: float = 0.0
    backend: Any = "draft"

    def __post_init__(self) -> None:
        if self.rank not in RANKS:
            raise OneShotConfigError(f"search.strategy.rank={self.rank}: use one of {', '.join(RANKS)}")
        self.check_at_least({"one_core_flops": 0})
        object.__setattr__(self, "backend", strategy_config(self.backend))
        if isinstance(self.backend, ReuseConfig):
            raise OneShotConfigError(
                "search.strategy.backend=reuse: a backend searches tasks without a parent; use draft, "
                "evolutionary or annealing"
            )
