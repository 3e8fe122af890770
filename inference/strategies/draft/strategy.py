"""Draft-then-verify: the default strategy. Evolution replaces it for targets and tasks without drafting."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from tvm.target import Target

from ....compiler.structure import DRAFT_VERSION
from ....dataset.hardware import Hardware
from ....dataset.sampling.programs import EvolutionaryConfig
from ....models.checkpoints.checkpoint import check_checkpoint
from ....models.checkpoints.shipped import AUTO, CheckpointUse, shipped_checkpoint
from ..base import Strategy, StrategyConfig, StrategySetting
from ..sampled import DescendingStrategy, EvolutionaryStrategy
from .config import DraftingConfig
from .drafter import UnreadableSpaceError
from .model import DraftModel
from .sampler import DraftSampler

_LOG = logging.getLogger(__name__)


class DraftStrategy(DescendingStrategy):
    """Rates decisions by the thousand with a draft model, and replays only the best drafts."""

    Config = DraftingConfig
    narrows_space = True
    takes_draft_model = True

    @classmethod
    def checkpoints(cls, config: Any) -> tuple[str, ...]:
        """See Strategy."""
        return () if config.checkpoint is None else (config.checkpoint,)

    @classmethod
    def fitted(cls, config: Any, target: Target) -> StrategyConfig:
        """The settings with a fitting checkpoint, or those of evolution, with a warning, if none fits.

        Raises CheckpointNotFoundError, FeatureVersionError or CorruptCheckpointError for a draft checkpoint
        that the user named.
        """
        return fitting_checkpoint(config, target) or EvolutionaryConfig()

    @classmethod
    def load(cls, config: Any, hardware: Hardware) -> DraftModel:
        """Loads the draft model. Raises the errors of `DraftModel.load`."""
        return DraftModel.load(config.checkpoint, hardware, config.lcb_coefficient)

    @classmethod
    def make(cls, config: Any, setting: StrategySetting) -> Strategy:
        """See Strategy. Evolution searches tasks with loops that drafting cannot read."""
        if setting.resources is None:
            raise ValueError("search.strategy=draft: needs a draft model; see DraftStrategy.load")
        try:
            sampler = DraftSampler(setting, config)
        except UnreadableSpaceError as error:
            _LOG.info("%s cannot be drafted (%s): it is searched by evolution", setting.task.name, error)
            return EvolutionaryStrategy.make(EvolutionaryConfig(), setting)
        return cls(sampler, setting)


def fitting_checkpoint(config: DraftingConfig, target: Target) -> DraftingConfig | None:
    """The settings with a draft checkpoint that fits the target; None, with a warning, if none fits.

    Raises CheckpointNotFoundError, FeatureVersionError or CorruptCheckpointError for a draft checkpoint that
    the user named.
    """
    checkpoint = config.checkpoint
    if checkpoint == AUTO:
        checkpoint = shipped_checkpoint(CheckpointUse.DRAFTS, target.kind.name)
        if checkpoint is None:
            _warn(f"no draft checkpoint for {target.kind.name} targets comes with foretune")
            return None
    if checkpoint is None:
        _warn("search.strategy.checkpoint=null")
        return None
    check_checkpoint(checkpoint, feature_version=DRAFT_VERSION)  # reports a bad one before the search
    return replace(config, checkpoint=checkpoint)


def _warn(reason: str) -> None:
    _LOG.warning(
        "%s: searching with search/strategy=evolutionary instead of draft; foretune train model=draft makes "
        "a draft checkpoint for search.strategy.checkpoint",
        reason,
    )
