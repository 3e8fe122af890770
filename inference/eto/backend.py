"""Search that ETO and its baselines ask for: stock MetaSchedule with a fixed number of trials."""

from __future__ import annotations

from dataclasses import replace

from ..reuse.config import PAPER, SELECTIVE, TOP_K
from ..search.config import OneShotConfig
from ..search.selection import StopConfig
from ..starts.config import KNOWN
from ..strategies.registry import strategy_config

TRIALS_A_ROUND = 64
"""Candidates that MetaSchedule measures before it fits its model again."""


def with_backend(config: OneShotConfig) -> OneShotConfig:
    """The settings as `search.reuse` asks for them; those of `off` and `auto` are what they are.

    With `paper`, a task with a parent is searched by Algorithm 1 as published, and each of its candidates is
    measured. Nothing that is Foretune's decides on a search: no pretrained model, no surrogate, no template,
    no early end. Settings of the strategy `stock` stay as they are given.
    """
    if config.reuse not in (PAPER, TOP_K, SELECTIVE):
        return config
    stock = config.strategy if config.strategy.name == "stock" else strategy_config("stock")
    strategy = {"name": "reuse", "rank": "paper", "backend": stock} if config.reuse == PAPER else stock
    return replace(
        config,
        strategy=strategy_config(strategy),
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
