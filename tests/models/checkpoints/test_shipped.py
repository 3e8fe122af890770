"""Shipped checkpoints by use and kind of target."""

import pytest
from foretune.models.checkpoints import shipped as subject
from foretune.models.checkpoints.checkpoint import load_checkpoint, load_explorer
from foretune.models.checkpoints.shipped import CheckpointUse, shipped_checkpoint


@pytest.mark.parametrize(
    ("use", "kind", "name"),
    [
        (CheckpointUse.SCORES, "llvm", "cpu"),
        (CheckpointUse.LATENCIES, "cuda", "cuda-latency"),
        (CheckpointUse.DRAFTS, "llvm", "cpu-draft"),
        (CheckpointUse.EXPLORER, "llvm", "cpu-explorer"),
        (CheckpointUse.EXPLORER, "cuda", None),
        (CheckpointUse.SCORES, "vulkan", None),
    ],
)
def test_a_checkpoint_is_found_by_use_and_target(use, kind, name):
    assert shipped_checkpoint(use, kind) == name


def test_a_name_without_a_folder_is_not_shipped(monkeypatch, tmp_path):
    monkeypatch.setattr(subject, "SHIPPED", tmp_path)
    assert shipped_checkpoint(CheckpointUse.SCORES, "llvm") is None


@pytest.mark.parametrize("use", CheckpointUse)
def test_each_use_has_a_checkpoint_of_its_kind(use):
    name = shipped_checkpoint(use, "llvm")
    assert name is not None
    if use is CheckpointUse.EXPLORER:
        load_explorer(name)
    else:
        assert load_checkpoint(name).predictor.target.is_absolute == (use is CheckpointUse.LATENCIES)
