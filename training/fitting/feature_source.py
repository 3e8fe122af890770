"""Features that a model reads: those of replayed programs, or the draft vectors of their decisions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ...compiler.structure import DRAFT_VERSION
from ...dataset.features.dataset import load_labelled_features
from ...dataset.features.table import LabelledFeatures, draft_table
from ...models.architectures.registry import feature_version_of
from ...models.checkpoints.checkpoint import Checkpoint, load_checkpoint


def load_features(dataset: Path, feature_version: str) -> LabelledFeatures:
    """Records of a dataset with the features of a version; raises as the loaders of `dataset` do."""
    data = load_labelled_features(dataset)
    return drafts_of(data) if feature_version == DRAFT_VERSION else data


def drafts_of(data: LabelledFeatures) -> LabelledFeatures:
    """Records with the features of draft models: the task field alone, which contains the draft vector."""
    return replace(data, features=draft_table(data.features.task, data.features.hardware))


def load_with_features(checkpoint: str | Path, dataset: Path) -> tuple[Checkpoint, LabelledFeatures]:
    """Checkpoint, by folder or shipped name, and dataset with the features that it reads.

    Raises FeatureVersionError if the checkpoint needs another version of its features; other errors are those
    of `load_checkpoint` and of the loaders of `dataset`.
    """
    version = feature_version_of(load_checkpoint(checkpoint).card.model.name)
    return load_checkpoint(checkpoint, version), load_features(dataset, version)
