"""Registry of search strategies: maps names to classes. The `Config` of a class holds its settings."""

from __future__ import annotations

from typing import Any

from tvm.target import Target

from ..search.registry import Registry
from ..search.settings_checks import named_settings
from .base import Strategy, StrategyConfig

STRATEGIES = {
    "draft": ".draft.strategy:DraftStrategy",
    "evolutionary": ".sampled:EvolutionaryStrategy",
    "annealing": ".sampled:AnnealingStrategy",
    "dqn": "..fasor.explorer_strategy:ExplorationStrategy",
    "reuse": "..eto.search.strategy:ReuseStrategy",
    "pool": ".pool:PoolStrategy",
    "stock": ".stock:StockStrategy",
}
"""Module and class of each strategy, relative to this package. A module is imported on first use."""

_REGISTRY = Registry("search.strategy", __package__, STRATEGIES, "unknown; use search/strategy= with")


def strategy_class(name: str) -> type[Strategy]:
    """Class of a strategy. Raises OneShotConfigError."""
    found: type[Strategy] = _REGISTRY.find(name)
    return found


def strategy_config(given: Any) -> StrategyConfig:
    """Settings of a strategy from a name, from a mapping with the key `name`, or from settings.

    Raises OneShotConfigError, and the errors of the settings for values out of range.
    """
    if isinstance(given, StrategyConfig):
        return given
    found: StrategyConfig = named_settings("strategy", given, lambda name: strategy_class(name).Config)
    return found


def fitted_strategy(config: StrategyConfig, target: Target) -> StrategyConfig:
    """Settings of a strategy that can serve the target; see `Strategy.fitted`."""
    return strategy_class(config.name).fitted(config, target)
