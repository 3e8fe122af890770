"""Training tasks of another dataset than the test dataset, to compare samplers of tasks."""

from __future__ import annotations

import numpy as np

from ...dataset.features.table import LabelledFeatures
from ...dataset.records.split import Split, SplitConfig
from ...errors import UserError


class OtherDataError(UserError, ValueError):
    """The other dataset cannot be used."""


def with_other_training_data(
    data: LabelledFeatures, split: Split, other: LabelledFeatures
) -> tuple[LabelledFeatures, SplitConfig]:
    """Data with the records of `other` in place of the training part, and its split.

    Only tasks of `other` whose shapes are in the validation or test part are left out, as a comparison of
    samplers needs datasets of similar size.

    Raises:
      OtherDataError: no record of `other` is left.
    """
    test, validation = (np.unique(data.workload_hash[rows]) for rows in (split.test, split.validation))
    kept = np.sort(np.concatenate([split.validation, split.test]))
    held_out = np.isin(other.shape, data.shape[kept]) | np.isin(other.workload_hash, data.workload_hash[kept])
    new = np.flatnonzero(~held_out)
    if len(new) == 0:
        raise OtherDataError(
            f"all {len(other)} records have shapes of test or validation tasks: give a dataset with other "
            "tasks"
        )
    config = SplitConfig(by="list", test_tasks=test.tolist(), validation_tasks=validation.tolist())
    return LabelledFeatures.concatenate([data.take(kept), other.take(new)]), config
