"""Learning curves: metrics on fixed test tasks by the number of training tasks or records.

The training sets are nested, so that a curve does not jump with the sample. Test and validation tasks are
complete and the same for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...configuration import ConfigError, check_seed
from ...dataset.features.table import LabelledFeatures
from ...dataset.records.split import Split, SplitConfig

ALL = "all"
AXES = {"tasks": "training tasks", "records_per_task": "training records a task"}


@dataclass(frozen=True)
class CurveConfig:
    """Sizes of the training sets along each axis, numbers or "all"; without sizes no curve is drawn.

    `models` names the compared models that are trained on them; if empty, all trained models.
    """

    tasks: list[str] = field(default_factory=list)
    records_per_task: list[str] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    seed: int = 0

    def __post_init__(self) -> None:
        check_seed("curve.seed", self.seed)
        for axis in AXES:
            for size in getattr(self, axis):
                if size != ALL and not (str(size).isdigit() and int(size) > 0):
                    raise ConfigError(f"curve.{axis}: {size!r} is not a size: give numbers above 0, or 'all'")


@dataclass(frozen=True)
class TrainingSet:
    """Training set of one point of a curve."""

    axis: str
    tasks: int  # training tasks
    records: int  # training records
    size: int  # number of tasks, or limit of records per task
    data: LabelledFeatures
    split: SplitConfig


def training_sets(
    data: LabelledFeatures, config: SplitConfig, split: Split, curve: CurveConfig
) -> Iterator[TrainingSet]:
    """Nested training sets of each axis by ascending size, with the test and validation tasks of `split`.

    A size that is not below the maximum counts as "all", which is the whole dataset.
    """
    hashes = data.workload_hash
    train_tasks = np.unique(hashes[split.train])
    rng = np.random.default_rng(curve.seed)
    task_rank = dict(zip(rng.permutation(train_tasks).tolist(), range(len(train_tasks)), strict=True))
    rank = {
        "tasks": np.array([task_rank[task] for task in hashes[split.train].tolist()]),
        "records_per_task": _rank_within(hashes[split.train], rng),
    }
    fixed = SplitConfig(
        by="list",
        seed=config.seed,
        test_tasks=np.unique(hashes[split.test]).tolist(),
        validation_tasks=np.unique(hashes[split.validation]).tolist(),
    )
    for axis, ranks in rank.items():
        whole = int(ranks.max()) + 1
        sizes = {whole if size == ALL else min(int(size), whole) for size in getattr(curve, axis)}
        for size in sorted(sizes):
            chosen = split.train[ranks < size]
            tasks = len(np.unique(hashes[chosen]))
            if size == whole:
                yield TrainingSet(axis, tasks, len(chosen), size, data, config)
            else:
                rows = np.sort(np.concatenate([chosen, split.validation, split.test]))
                yield TrainingSet(axis, tasks, len(chosen), size, data.take(rows), fixed)


def _rank_within(tasks: NDArray[np.str_], rng: np.random.Generator) -> NDArray[np.int64]:
    """Rank of each record in a random order of the records of its task, from 0."""
    shuffled = rng.permutation(len(tasks))
    by_task = shuffled[np.argsort(tasks[shuffled], kind="stable")]
    first_of_task = np.flatnonzero(np.r_[True, tasks[by_task][1:] != tasks[by_task][:-1]])
    lengths = np.diff(np.r_[first_of_task, len(tasks)])
    rank = np.empty(len(tasks), dtype=np.int64)
    rank[by_task] = np.arange(len(tasks)) - np.repeat(first_of_task, lengths)
    return rank
