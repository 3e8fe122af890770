"""Moving a cost model to another device: whose records, which tasks, and how much of the way it gets.

Fasor trains a model once and adapts it to a new device with the records of k tasks (section 4.2). What that
is worth is told by tasks of the new device that neither the source model nor the fine-tuning has seen.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..dataset.features.table import LabelledFeatures
from ..dataset.split import SplitConfig, split_rows
from ..errors import UserError
from ..models.normaliser import Normaliser


class TransferError(UserError, ValueError):
    """The dataset does not hold what a transfer needs."""


def device_of(data: LabelledFeatures, hardware: str | None) -> str:
    """The id of the device to move to: `hardware`, or the only one of the dataset.

    Raises:
      TransferError: no record is of that device, or there are several to choose from.
    """
    names, counts = np.unique(data.hardware_id, return_counts=True)
    known = ", ".join(f"{name} ({count} records)" for name, count in zip(names, counts, strict=True))
    if hardware is None:
        if len(names) != 1:
            raise TransferError(f"hardware is missing, and the dataset has records of {known}: name one")
        return str(names[0])
    if hardware not in names:
        raise TransferError(f"hardware={hardware!r}: the dataset has no record of it, but of {known}")
    return hardware


def of_device(data: LabelledFeatures, hardware: str) -> LabelledFeatures:
    """The records of one device."""
    return data.take(np.flatnonzero(data.hardware_id == hardware))


def of_tasks(
    data: LabelledFeatures, tasks: Collection[str], records_per_task: int | None = None, seed: int = 0
) -> LabelledFeatures:
    """The records of some tasks, or `records_per_task` drawn from those of each.

    Raises:
      TransferError: a task has no record, or none of those drawn ran.
    """
    wanted = sorted(set(tasks))
    missing = sorted(set(wanted) - set(np.unique(data.workload_hash).tolist()))
    if missing:
        raise TransferError(
            f"{len(missing)} of {len(wanted)} tasks have no record, the first being {missing[0]}: measure "
            "them with foretune-generate, or leave them out"
        )
    rows = np.flatnonzero(np.isin(data.workload_hash, wanted))
    if records_per_task is not None:
        if records_per_task < 1:
            raise TransferError(f"records_per_task={records_per_task}: take at least 1, or null for all")
        rows = _first_of_each(rows[_shuffled(len(rows), seed)], data.workload_hash, records_per_task)
    taken = data.take(rows)
    if not np.isfinite(taken.latency_s).any():
        raise TransferError(f"none of the {len(taken)} records of the {len(wanted)} tasks ran: choose others")
    return taken


def _shuffled(n: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).permutation(n)


def _first_of_each(rows: NDArray[np.int64], names: NDArray[np.str_], count: int) -> NDArray[np.int64]:
    """The first `count` of `rows` of each name, ascending."""
    kept = [rows[names[rows] == name][:count] for name in np.unique(names[rows])]
    return np.sort(np.concatenate(kept))


def knows_backend(normaliser: Normaliser, data: LabelledFeatures) -> bool:
    """Whether the records that a normaliser was fitted on are, at least some, of a CPU or GPU as `data` are.

    Fasor transfers only among platforms of one backend (section 4.2). The first hardware feature tells a GPU,
    so its mean is the share of GPU records.
    """
    gpu_share = float(normaliser.hardware.mean[0])
    on_gpu = bool(data.features.hardware[:, 0].mean() > 0.5)
    return gpu_share > 1e-6 if on_gpu else gpu_share < 1 - 1e-6


@dataclass(frozen=True)
class TransferSplit:
    """Tasks of the new device, by their hashes: those that may be measured, and those to judge by."""

    pool: list[str]
    test: list[str]


def split_target(
    data: LabelledFeatures, source_tasks: Collection[str], test: float, seed: int
) -> TransferSplit:
    """Splits the tasks of the new device's records `data`, spread over the operators.

    No test task is one of `source_tasks`, on which the source model was trained, or in the pool: neither the
    program nor the shape was seen on any device.

    Raises:
      TransferError: no task is left to test on.
      SplitError: the shares leave nothing in the pool.
    """
    split = split_rows(data, SplitConfig(validation=0.0, test=test, seed=seed), source_tasks)
    pool, held_out = (_tasks(data, rows) for rows in (split.train, split.test))
    if not held_out:
        raise TransferError(
            f"test={test}: all {len(pool)} tasks of the new device were trained on before: measure others"
        )
    return TransferSplit(pool, held_out)


def _tasks(data: LabelledFeatures, rows: NDArray[np.int64]) -> list[str]:
    return [str(name) for name in np.unique(data.workload_hash[rows])]


@dataclass(frozen=True)
class Recovery:
    """How far a transfer gets, for a metric that is better when higher.

    With the metric of the model without transfer (none), after transfer (few), and of a model trained on all
    the tasks of the new device's pool (full):

    - `of_gap`  = (few - none) / (full - none), None where full is not better than none;
    - `of_full` = few / full, None where full is not positive. Where chance earns much, as the half of all
      pairs, so does this figure.
    """

    of_gap: float | None
    of_full: float | None

    @classmethod
    def of(cls, none: float, few: float, full: float) -> Recovery:
        """Both figures; None where an input is not a number."""
        known = bool(np.isfinite([none, few, full]).all())
        return cls(
            (few - none) / (full - none) if known and full > none else None,
            few / full if known and full > 0 else None,
        )


def mean_recovery(none: Sequence[float], few: Sequence[float], full: Sequence[float]) -> Recovery:
    """The recovery of the means over seeds: a ratio of means stays stable where one seed has a small gap."""
    return Recovery.of(float(np.mean(none)), float(np.mean(few)), float(np.mean(full)))
