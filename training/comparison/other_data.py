"""Training or test tasks of another dataset than the compared one.

With other training tasks a comparison ranks samplers of tasks; test tasks of another dataset may be the tasks
of whole networks.
"""

from __future__ import annotations

from dataclasses import dataclass

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
            "all its records have shapes of test or validation tasks: give a dataset with other tasks"
        )
    config = SplitConfig(by="list", test_tasks=test.tolist(), validation_tasks=validation.tolist())
    return LabelledFeatures.concatenate([data.take(kept), other.take(new)]), config


@dataclass(frozen=True)
class OtherTest:
    """Records of two datasets, one for training and one for the test."""

    data: LabelledFeatures
    split: SplitConfig
    common_tasks: int
    """Tasks of the test dataset that are left out, as the training dataset has their shapes."""


def with_other_test_data(data: LabelledFeatures, split: Split, other: LabelledFeatures) -> OtherTest:
    """Data with all tasks of `other` in place of the test part, and its split.

    The test part of `split` is left out, so that the training is the same as by `split`. Tasks of `other`
    whose shape is in any part of `data` are left out, so that the test tasks do not depend on the split.

    Raises:
      OtherDataError: no task of `other` is left.
    """
    common = np.isin(other.shape, data.shape) | np.isin(other.workload_hash, data.workload_hash)
    if common.all():
        raise OtherDataError(
            "test_dataset: the training dataset has the shapes of all its tasks: "
            "give a dataset with other tasks"
        )
    test = other.take(np.flatnonzero(~common))
    kept = np.sort(np.concatenate([split.train, split.validation]))
    config = SplitConfig(
        by="list",
        test_tasks=np.unique(test.workload_hash).tolist(),
        validation_tasks=np.unique(data.workload_hash[split.validation]).tolist(),
    )
    left_out = len(np.unique(other.workload_hash[common]))
    return OtherTest(LabelledFeatures.concatenate([data.take(kept), test]), config, left_out)
