"""Choice of the draft checkpoint for a target."""

from __future__ import annotations

import logging
from dataclasses import replace

from tvm.target import Target

from ....compiler.structure import DRAFT_VERSION
from ....models.checkpoints.checkpoint import load_checkpoint
from ....models.checkpoints.shipped import AUTO, CheckpointUse, shipped_checkpoint
from .config import DraftingConfig

_LOG = logging.getLogger(__name__)


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
    load_checkpoint(checkpoint, feature_version=DRAFT_VERSION)  # reports a bad checkpoint before the search
    return replace(config, checkpoint=checkpoint)


def _warn(reason: str) -> None:
    _LOG.warning(
        "%s: searching with search/strategy=evolutionary instead of draft; foretune train model=draft makes "
        "a draft checkpoint for search.strategy.checkpoint",
        reason,
    )
