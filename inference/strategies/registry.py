"""Registry of search strategies: name to class, whose `Config` holds its settings."""

from __future__ import annotations

from typing import Any

from tvm.target import Target

from ..search.registry import Registry
from ..search.settings_checks import named_settings
from .base import Strategy, StrategyConfig

STRATEGIES = {
    "draft": ".draft.strategy:DraftStrategy",
    "evolutionary": ".evolutionary:EvolutionaryStrategy",
    "annealing": ".annealing:AnnealingStrategy",
    "dqn": "..fasor.explorer_strategy:ExplorationStrategy",
    "reuse": "..eto.search.strategy:ReuseStrategy",
    "pool": ".pool:PoolStrategy",
    "stock": ".stock:StockStrategy",
}
"""Module and class of each strategy, imported when first used; relative to this package."""

_REGISTRY = Registry("search.strategy", __package__, STRATEGIES, "unknown; use search/strategy= with")


def strategy_class(name: str) -> type[Strategy]:
    """The class of a strategy; raises OneShotConfigError."""
    found: type[Strategy] = _REGISTRY.find(name)
    return found


def strategy_config(given: Any) -> StrategyConfig:
    """Settings of a strategy from its name, from a mapping with the key `name`, or from settings.

    Raises OneShotConfigError, and what the settings raise for values out of range.
    """
    if isinstance(given, StrategyConfig):
        return given
    found: StrategyConfig = named_settings("strategy", given, lambda name: strategy_class(name).Config)
    return found


def fitted_strategy(config: StrategyConfig, target: Target) -> StrategyConfig:
    """The settings of a strategy that can serve the target; see `Strategy.fitted`."""
    return strategy_class(config.name).fitted(config, target)
