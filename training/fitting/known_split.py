"""Split that keeps tasks in the parts that they had in the training of a checkpoint."""

from __future__ import annotations

import numpy as np

from ...dataset.features.table import LabelledFeatures
from ...dataset.records.split import SplitConfig, SplitError, split_rows, with_shapes_of
from ...models.checkpoints.checkpoint import load_checkpoint


def split_like_checkpoint(config: SplitConfig, data: LabelledFeatures) -> SplitConfig:
    """Split by list that `by="checkpoint"` stands for on these records; other splits are returned unchanged.

    A task of the checkpoint stays in its part, and other tasks of its shape join it there. Cards that are
    older than the definition of a shape may have a shape in several parts. Such a shape is trained on rather
    than validated on, and validated on rather than tested on, as the checkpoint has seen it. Tasks of other
    shapes are split by the shares `test` and `validation`, as with `by="task"`, or trained on if they are too
    few for each part to get one. A model that is trained on more records is thus tested on tasks that the
    earlier model was tested on.

    Raises:
      SplitError: the dataset has no task of the checkpoint's tests.
      UserError: the checkpoint cannot be read.
    """
    if config.by != "checkpoint":
        return config
    before = load_checkpoint(config.checkpoint).card.split
    train, validation, test = (
        with_shapes_of(data, before.tasks(part)) for part in ("train", "validation", "test")
    )
    fresh = ~(train | validation | test | before.saw(data))
    chosen = {"test": test & ~before.saw(data), "validation": validation & ~train}
    if not chosen["test"].any():
        raise SplitError(
            f"split.checkpoint={config.checkpoint}: the dataset has none of the tasks that it was tested on; "
            "name the checkpoint of an earlier state of the dataset, or use split.by=task"
        )
    if len(np.unique(data.shape[fresh])) > (config.test > 0) + (config.validation > 0):
        rows = np.flatnonzero(fresh)
        shares = SplitConfig(validation=config.validation, test=config.test, seed=config.seed)
        parts = split_rows(data.take(rows), shares)
        for part, mask in chosen.items():
            mask[rows[parts.part(part)]] = True
    return SplitConfig(
        by="list",
        seed=config.seed,
        test_tasks=np.unique(data.workload_hash[chosen["test"]]).tolist(),
        validation_tasks=np.unique(data.workload_hash[chosen["validation"]]).tolist(),
    )
