"""Search that ETO and its baselines require: stock MetaSchedule with a fixed number of trials."""

from __future__ import annotations

from dataclasses import replace

from ..search.config import OneShotConfig
from ..search.selection import StopConfig
from ..starts.config import KNOWN
from ..strategies.stock import StockConfig
from .search.config import BY_MEASURING, ReuseConfig

TRIALS_A_ROUND = 64
"""Candidates that MetaSchedule measures before it refits its model."""


def with_backend(config: OneShotConfig, *, by_algorithm: bool) -> OneShotConfig:
    """The settings of a published search.

    With `by_algorithm`, Algorithm 1 as published searches a task with a parent and measures each of its
    candidates. No part of Foretune influences the search: no pretrained model, surrogate, template or early
    end. Settings of the strategy `stock` do not change.
    """
    stock = config.strategy if isinstance(config.strategy, StockConfig) else StockConfig()
    return replace(
        config,
        strategy=ReuseConfig(rank=BY_MEASURING, backend=stock) if by_algorithm else stock,
        rounds=-(-config.eto.trials // TRIALS_A_ROUND),
        top_k=config.eto.trials,
        replay_factor=1,
        min_latency_share=0.0,
        random_share=0.0,
        max_code=None,
        templates=0,
        starts=KNOWN,
        extra_rounds=0,
        surrogate=False,
        finalists=0,
        stop=StopConfig(expected_improvement=0.0),
    )
