"""Training tasks of one dataset with the test tasks of another: how samplers are compared."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from ..dataset.features.table import FeatureTable, LabelledFeatures
from ..dataset.split import Split, SplitConfig
from ..errors import UserError


class OtherDataError(UserError, ValueError):
    """The other dataset cannot be trained on here."""


def with_other_training_data(
    data: LabelledFeatures, split: Split, other: LabelledFeatures
) -> tuple[LabelledFeatures, SplitConfig]:
    """The records of `other` in place of the training part, and the split that says so.

    Tasks of the validation and test part are left out of `other`, and so is nothing else: a comparison of
    samplers wants datasets of like size.

    Raises:
      OtherDataError: nothing is left of it.
    """
    test, validation = (np.unique(data.workload_hash[rows]) for rows in (split.test, split.validation))
    kept = np.sort(np.concatenate([split.validation, split.test]))
    new = np.flatnonzero(~np.isin(other.shape, data.shape[kept]))
    if len(new) == 0:
        raise OtherDataError(
            f"all {len(other)} records are of test or validation tasks, or of their shapes: give a dataset "
            "with other tasks"
        )
    config = SplitConfig(by="list", test_tasks=test.tolist(), validation_tasks=validation.tolist())
    return joined(data.take(kept), other.take(new)), config


def joined(first: LabelledFeatures, second: LabelledFeatures) -> LabelledFeatures:
    """The records of both, in order."""
    columns = {
        f.name: np.concatenate([getattr(first, f.name), getattr(second, f.name)])
        for f in fields(LabelledFeatures)
        if f.name != "features"
    }
    tables = (first.features, second.features)
    tokens = {}
    for f in fields(FeatureTable):
        one, two = (getattr(table, f.name) for table in tables)
        # The second table's tokens lie behind those of the first.
        moved = two[1:] + one[-1] if f.name.endswith("_offsets") else two
        tokens[f.name] = np.concatenate([one, moved])
    return LabelledFeatures(FeatureTable(**tokens), **columns)
