"""A split that leaves every task where the training of a checkpoint had it."""

from __future__ import annotations

import numpy as np

from ..dataset.features.table import LabelledFeatures
from ..dataset.split import SplitConfig, SplitError, split_rows
from ..models.checkpoint import load_checkpoint


def split_like_checkpoint(config: SplitConfig, data: LabelledFeatures) -> SplitConfig:
    """The split by list that `by="checkpoint"` means for these records; other splits come back as they are.

    A task of the checkpoint's is where it was, and so is any other of its shape. Those of other shapes are
    split by the shares `test` and `validation`, as `by="task"` does. So a model of more records is tested on
    what the one before was tested on.

    Raises:
      SplitError: the dataset has no task of the checkpoint's tests.
      UserError: the checkpoint cannot be read.
    """
    if config.by != "checkpoint":
        return config
    before = load_checkpoint(config.checkpoint).card.split
    known = {part: _with_shapes_of(before.tasks(part), data) for part in ("test", "validation", "train")}
    if not known["test"].any():
        raise SplitError(
            f"split.checkpoint={config.checkpoint}: the dataset has none of the tasks that it was tested on; "
            "name the checkpoint of an earlier state of the dataset, or use split.by=task"
        )
    fresh = ~np.logical_or.reduce(list(known.values()))
    chosen = {"test": known["test"], "validation": known["validation"] & ~known["test"]}
    if fresh.any():
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


def _with_shapes_of(tasks: list[str], data: LabelledFeatures) -> np.ndarray:
    """Rows, as a mask, of these tasks and of others of their shapes."""
    shapes = data.shape[np.isin(data.workload_hash, tasks)]
    return np.isin(data.shape, shapes)
