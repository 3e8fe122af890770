"""Choice of a cost-model checkpoint that was trained for the target's kind of device."""

from __future__ import annotations

import logging
from pathlib import Path

from tvm.target import Target

from ...dataset.features import FEATURE_VERSION
from ...errors import UserError
from ...models.checkpoints.card import Card
from ...models.checkpoints.checkpoint import check_checkpoint
from ...models.checkpoints.shipped import AUTO, CheckpointUse, shipped_checkpoint

_DEVICES = {"cpu": "CPUs", "cuda": "CUDA GPUs"}

_LOG = logging.getLogger(__name__)


class CheckpointFitError(UserError, ValueError):
    """The checkpoint was trained for another kind of device."""


def misfit(card: Card, target: Target) -> str | None:
    """Reason why a checkpoint does not know a target's kind of device; None if it does.

    A checkpoint with further training, as by foretune finetune, always fits: its card names only the kinds of
    the first training.
    """
    kind = "cpu" if target.kind.name in ("llvm", "c") else target.kind.name
    known = card.normaliser.device_kinds
    if kind in known or card.training.get("start_from"):
        return None
    return f"trained on records of {' and '.join(_DEVICES[name] for name in sorted(known))} alone"


def fitting_checkpoint(checkpoint: str | Path | None, target: Target) -> str | None:
    """Checkpoint to search with: AUTO is resolved for the target; a named checkpoint is returned unchanged.

    The result is None, with a warning, if AUTO finds no checkpoint, and None without a warning for None.
    Raises CheckpointFitError for a named checkpoint of another kind of device, and the errors of
    `check_checkpoint`.
    """
    kind = target.kind.name
    if checkpoint == AUTO:
        checkpoint = shipped_checkpoint(CheckpointUse.SCORES, kind)
        if checkpoint is None:
            _LOG.warning(
                "no checkpoint for %s targets comes with foretune: searching without a cost model, by "
                "measurements alone; foretune train makes one from a dataset of foretune generate target=%s",
                kind,
                kind,
            )
            return None
    if checkpoint is None:
        return None
    reason = misfit(check_checkpoint(checkpoint, feature_version=FEATURE_VERSION), target)
    if reason is not None:
        raise CheckpointFitError(
            f"checkpoint={checkpoint}: {reason}, and target={kind} is another kind of device; use "
            "checkpoint=null to search without a cost model, or train one: foretune generate "
            f"dataset=data/{kind} target={kind}, then foretune train dataset=data/{kind}"
        )
    return str(checkpoint)
