"""Fasor's exploration: a deep Q-network walks from pretuned schedules without replays or measurements."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from tvm.target import Target

from ...dataset.hardware import Hardware
from ...dataset.sampling.programs import EvolutionaryConfig
from ...models.checkpoints.checkpoint import load_explorer
from ...models.checkpoints.shipped import AUTO, CheckpointUse, shipped_checkpoint
from ...training.exploration.environment import Environment
from ..strategies.base import Strategy, StrategyConfig, StrategySetting
from ..strategies.evolutionary import EvolutionaryStrategy
from ..strategies.sampled import DescendingStrategy
from .explorer_config import ExplorationConfig
from .explorer_sampler import ExplorationSampler, ExplorerResources, UnexplorableError

_LOG = logging.getLogger(__name__)


class ExplorationStrategy(DescendingStrategy):
    """Walks of an explorer; the strategy replays their best programs, and the cost model rates them."""

    Config = ExplorationConfig

    @classmethod
    def checkpoints(cls, config: Any) -> tuple[str, ...]:
        """See Strategy: the explorer, and the model that judges its programs."""
        return config.checkpoint, config.environment

    @classmethod
    def fitted(cls, config: Any, target: Target) -> StrategyConfig:
        """The settings with a named checkpoint; with a warning, evolution if no checkpoint fits the target.

        Raises the errors of `load_explorer` and `Environment.load` for checkpoints that the user named.
        """
        name = config.checkpoint
        if name == AUTO:
            name = shipped_checkpoint(CheckpointUse.EXPLORER, target.kind.name)
        if name is None:
            _LOG.warning(
                "no explorer for %s targets comes with foretune: searching with search/strategy=evolutionary "
                "instead of dqn; foretune reinforce makes one for search.strategy.checkpoint",
                target.kind.name,
            )
            return EvolutionaryConfig()
        load_explorer(name)  # reports bad checkpoints before the search
        Environment.load(config.environment)
        found: StrategyConfig = replace(config, checkpoint=name)
        return found

    @classmethod
    def load(cls, config: Any, hardware: Hardware) -> ExplorerResources:
        """The explorer and its environment; raises the errors of `load_explorer` and `Environment.load`."""
        explorer, _ = load_explorer(config.checkpoint)
        environment, _ = Environment.load(config.environment)
        return ExplorerResources(explorer, environment, hardware)

    @classmethod
    def make(cls, config: Any, setting: StrategySetting) -> Strategy:
        """See Strategy; evolution searches a task whose decisions no move changes."""
        if setting.resources is None:
            raise ValueError("search.strategy=dqn: needs an explorer; see ExplorationStrategy.load")
        try:
            sampler = ExplorationSampler(setting, config)
        except UnexplorableError as error:
            _LOG.info("%s cannot be explored (%s): it is searched by evolution", setting.task.name, error)
            return EvolutionaryStrategy.make(EvolutionaryConfig(), setting)
        return cls(sampler, setting)
