"""Features that a model reads: those of replayed programs, or the draft vectors of their decisions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..dataset.drafting import DRAFT_VERSION
from ..dataset.features.table import LabelledFeatures
from ..models.checkpoint import Checkpoint, load_checkpoint
from ..models.registry import feature_version_of


def load_features(dataset: Path, feature_version: str) -> LabelledFeatures:
    """Records of a dataset with the features of a version; raises as the loaders of `dataset` do."""
    if feature_version == DRAFT_VERSION:
        from ..dataset.drafting.dataset import load_draft_features

        return load_draft_features(dataset)
    from ..dataset.features.dataset import load_labelled_features

    return load_labelled_features(dataset)


def drafts_of(data: LabelledFeatures) -> LabelledFeatures:
    """Records with the features of draft models: the task field alone, which contains the draft vector."""
    from ..dataset.drafting.dataset import draft_table

    return replace(data, features=draft_table(data.features.task, data.features.hardware))


def load_with_features(checkpoint: str | Path, dataset: Path) -> tuple[Checkpoint, LabelledFeatures]:
    """Checkpoint, by folder or shipped name, and dataset with the features that it reads.

    Raises FeatureVersionError if the checkpoint needs another version of its features; other errors are those
    of `load_checkpoint` and of the loaders of `dataset`.
    """
    version = feature_version_of(load_checkpoint(checkpoint).card.model.name)
    return load_checkpoint(checkpoint, version), load_features(dataset, version)
