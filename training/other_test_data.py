"""Test tasks of one dataset for what is trained on another: how models do on networks that they never saw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dataset.features.table import LabelledFeatures
from ..dataset.split import Split, SplitConfig
from .other_training_data import OtherDataError, joined


@dataclass(frozen=True)
class OtherTest:
    """Records of two datasets, to be trained on and to be tested on."""

    data: LabelledFeatures
    split: SplitConfig
    common_tasks: int
    """Tasks of the test dataset that are left out, since the other has them or their shapes, too."""


def with_other_test_data(data: LabelledFeatures, split: Split, other: LabelledFeatures) -> OtherTest:
    """All tasks of `other` in place of the test part, and the split that says so.

    What `split` would have tested on is left out, so that the training is the one of that split. Tasks that
    `data` has in any part, or has the shape of, are left out of `other`, so that the test tasks do not depend
    on the split.

    Raises:
      OtherDataError: nothing is left of `other`.
    """
    common = np.isin(other.shape, data.shape)
    if common.all():
        raise OtherDataError(
            f"test_dataset: the dataset to train on has all tasks of its {len(other)} records, or their "
            "shapes: give one with other tasks"
        )
    test = other.take(np.flatnonzero(~common))
    kept = np.sort(np.concatenate([split.train, split.validation]))
    config = SplitConfig(
        by="list",
        test_tasks=np.unique(test.workload_hash).tolist(),
        validation_tasks=np.unique(data.workload_hash[split.validation]).tolist(),
    )
    left_out = len(np.unique(other.workload_hash[common]))
    return OtherTest(joined(data.take(kept), test), config, left_out)
