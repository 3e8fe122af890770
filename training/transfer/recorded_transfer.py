"""Transfer of a cost model to another device: its records, tasks, split, and the recovered accuracy.

Fasor trains a model once and adapts it to a new device with the records of k tasks (section 4.2). Tasks of
the new device that neither the source model nor the fine-tuning has seen evaluate the transfer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...dataset.features.table import LabelledFeatures
from ...dataset.records.split import SplitConfig, split_rows
from ...errors import UserError
from ...models.scaling.normaliser import Normaliser
from ...wording import counted, part_of, verb


class TransferError(UserError, ValueError):
    """The dataset lacks records that a transfer needs."""


def device_of(data: LabelledFeatures, hardware: str | None) -> str:
    """Id of the new device: `hardware`, or the only device of the dataset.

    Raises:
      TransferError: the dataset has no record of that device, or `hardware` is None and it has several.
    """
    names, counts = np.unique(data.hardware_id, return_counts=True)
    known = ", ".join(
        f"{name} ({counted(count, 'record')})" for name, count in zip(names, counts, strict=True)
    )
    if hardware is None:
        if len(names) != 1:
            raise TransferError(f"hardware is missing, and the dataset has records of {known}: name one")
        return str(names[0])
    if hardware not in names:
        raise TransferError(f"hardware={hardware!r}: the dataset has no record of it, but of {known}")
    return hardware


def of_device(data: LabelledFeatures, hardware: str) -> LabelledFeatures:
    """Records of one device."""
    return data.take(np.flatnonzero(data.hardware_id == hardware))


def of_tasks(
    data: LabelledFeatures, tasks: Collection[str], records_per_task: int | None = None, seed: int = 0
) -> LabelledFeatures:
    """Records of some tasks, or `records_per_task` random records of each.

    Raises:
      TransferError: a task has no record, or none of the records ran.
    """
    names = sorted(set(tasks))
    missing = sorted(set(names) - set(np.unique(data.workload_hash).tolist()))
    if missing:
        raise TransferError(
            f"{part_of(len(missing), len(names), 'task')} {verb(len(missing), 'has', 'have')} no "
            f"record, the first being {missing[0]}: measure "
            "them with foretune generate, or leave them out"
        )
    rows = np.flatnonzero(np.isin(data.workload_hash, names))
    if records_per_task is not None:
        if records_per_task < 1:
            raise TransferError(f"records_per_task={records_per_task}: set it to 1 or more, or null for all")
        rows = _first_of_each(rows[_shuffled(len(rows), seed)], data.workload_hash, records_per_task)
    taken = data.take(rows)
    if not np.isfinite(taken.latency_s).any():
        raise TransferError(f"no record of {counted(len(names), 'task')} ran: choose others")
    return taken


def _shuffled(n: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).permutation(n)


def _first_of_each(rows: NDArray[np.int64], names: NDArray[np.str_], count: int) -> NDArray[np.int64]:
    """First `count` of `rows` for each name, ascending."""
    kept = [rows[names[rows] == name][:count] for name in np.unique(names[rows])]
    return np.sort(np.concatenate(kept))


def knows_backend(normaliser: Normaliser, data: LabelledFeatures) -> bool:
    """Whether the normaliser's training data contain the kind of device (CPU or GPU) of `data`.

    Fasor transfers only between platforms of one backend (section 4.2).
    """
    on_gpu = bool(data.features.hardware[:, 0].mean() > 0.5)
    return ("cuda" if on_gpu else "cpu") in normaliser.device_kinds


@dataclass(frozen=True)
class TransferSplit:
    """Tasks of the new device by hash: a pool that may be measured, and test tasks."""

    pool: list[str]
    test: list[str]


def split_target(
    data: LabelledFeatures, source_tasks: Collection[str], test: float, seed: int
) -> TransferSplit:
    """Split of the tasks of the new device's records `data`, stratified by operator.

    No test task has the shape of a task in the pool or in `source_tasks`, on which the source model was
    trained.

    Raises:
      TransferError: no task is left to test on.
      SplitError: the shares leave nothing in the pool.
    """
    split = split_rows(data, SplitConfig(validation=0.0, test=test, seed=seed), source_tasks)
    pool, held_out = (_tasks(data, rows) for rows in (split.train, split.test))
    if not held_out:
        raise TransferError(
            f"test={test}: the source was trained on all tasks of the new device: measure others"
        )
    return TransferSplit(pool, held_out)


def _tasks(data: LabelledFeatures, rows: NDArray[np.int64]) -> list[str]:
    return [str(name) for name in np.unique(data.workload_hash[rows])]


@dataclass(frozen=True)
class Recovery:
    """Accuracy that a transfer recovers, for a metric that is better if higher.

    Let none, few and full be the metric without transfer, after transfer, and of a model trained on all tasks
    of the new device's pool:

    - `of_gap`  = (few - none) / (full - none), None if full is not better than none;
    - `of_full` = few / full, None if full is not positive. It is large for metrics with a large value by
      chance, such as pairwise accuracy.
    """

    of_gap: float | None
    of_full: float | None

    @classmethod
    def of(cls, none: float, few: float, full: float) -> Recovery:
        """Recovery of three values; None if one of them is not finite."""
        known = bool(np.isfinite([none, few, full]).all())
        return cls(
            (few - none) / (full - none) if known and full > none else None,
            few / full if known and full > 0 else None,
        )


def mean_recovery(none: Sequence[float], few: Sequence[float], full: Sequence[float]) -> Recovery:
    """Recovery of the means over seeds; a ratio of means is stable if the gap of one seed is small."""
    return Recovery.of(float(np.mean(none)), float(np.mean(few)), float(np.mean(full)))
