"""Settings of the reuse strategy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...search.settings_checks import OneShotConfigError
from ...strategies.base import StrategyConfig
from ...strategies.registry import strategy_config

BY_MODEL, BY_MEASURING = RANKS = ("model", "paper")
"""Values of `rank`; conf/search/strategy/reuse.yaml says what each does."""


@dataclass(frozen=True)
class ReuseConfig(StrategyConfig):
    """Search by a parent's program; conf/search/strategy/reuse.yaml says what each field means.

    `backend` is the strategy of tasks without a parent: its name, a mapping with `name` and its settings, or
    its `Config`.
    """

    name: str = "reuse"
    rank: str = BY_MODEL
    backend: Any = "draft"

    def __post_init__(self) -> None:
        if self.rank not in RANKS:
            raise OneShotConfigError(f"search.strategy.rank={self.rank}: use one of {', '.join(RANKS)}")
        object.__setattr__(self, "backend", strategy_config(self.backend))
        if isinstance(self.backend, ReuseConfig):
            raise OneShotConfigError(
                "search.strategy.backend=reuse: a backend searches tasks without a parent; use draft, "
                "evolutionary or annealing"
            )
