"""Which draft checkpoint a search uses, and what it does where there is none."""

from __future__ import annotations

import logging
from dataclasses import replace

from tvm.target import Target

from ..dataset.drafting import DRAFT_VERSION
from ..models.checkpoint import load_checkpoint, shipped_checkpoints
from .search_config import AUTO, OneShotConfig

_LOG = logging.getLogger(__name__)

_SHIPPED = {"llvm": "cpu-draft", "cuda": "cuda-draft"}
"""Name of the draft checkpoint for each kind of target; one that is not shipped (yet) is passed over."""


def with_fitting_draft(config: OneShotConfig, target: Target) -> OneShotConfig:
    """The search with its draft checkpoint named; evolution, told in one line, where none fits the target.

    Raises CheckpointNotFoundError, FeatureVersionError or CorruptCheckpointError for a draft checkpoint that
    the user named.
    """
    if config.strategy != "draft":
        return config
    checkpoint = config.draft.checkpoint
    if checkpoint == AUTO:
        checkpoint = _SHIPPED.get(target.kind.name)
        if checkpoint not in shipped_checkpoints():
            return _evolving(
                config, f"no draft checkpoint for {target.kind.name} targets comes with foretune"
            )
    if checkpoint is None:
        return _evolving(config, "search.draft.checkpoint=null")
    load_checkpoint(checkpoint, feature_version=DRAFT_VERSION)  # tells early what is wrong
    return replace(config, draft=replace(config.draft, checkpoint=checkpoint))


def _evolving(config: OneShotConfig, reason: str) -> OneShotConfig:
    _LOG.warning(
        "%s: searching with search.strategy=evolutionary instead of draft; foretune-train model=draft makes "
        "a draft checkpoint for search.draft.checkpoint",
        reason,
    )
    return replace(config, strategy="evolutionary")
