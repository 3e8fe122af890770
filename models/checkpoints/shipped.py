"""Choice of the shipped checkpoint for a use and a kind of target."""

from __future__ import annotations

from enum import Enum, auto

from .checkpoint import CARD_FILE, EXPLORER_SUFFIX, SHIPPED

AUTO = "auto"
"""Checkpoint name that stands for the shipped checkpoint of the target."""


class CheckpointUse(Enum):
    """Task of a checkpoint in a search."""

    SCORES = auto()
    """Rates the replayed programs of a task."""
    LATENCIES = auto()
    """Predicts latencies in seconds, which are comparable between tasks."""
    DRAFTS = auto()
    """Rates candidates by their decisions, without replay."""
    EXPLORER = auto()
    """Chooses the moves of an exploration."""


SHIPPED_CHECKPOINTS = {
    CheckpointUse.SCORES: {"llvm": "cpu", "cuda": "cuda"},
    CheckpointUse.LATENCIES: {"llvm": "cpu-latency", "cuda": "cuda-latency"},
    CheckpointUse.DRAFTS: {"llvm": "cpu-draft", "cuda": "cuda-draft"},
    CheckpointUse.EXPLORER: {"llvm": f"cpu{EXPLORER_SUFFIX}", "cuda": f"cuda{EXPLORER_SUFFIX}"},
}
"""Name of the checkpoint for each use and kind of TVM target, whether or not it is shipped yet."""


def shipped_checkpoint(use: CheckpointUse, target_kind: str) -> str | None:
    """Name of the shipped checkpoint for a kind of TVM target such as "llvm"; None if there is none."""
    name = SHIPPED_CHECKPOINTS[use].get(target_kind)
    return name if name is not None and (SHIPPED / name / CARD_FILE).is_file() else None
