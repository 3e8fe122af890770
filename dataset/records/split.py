"""Splits of a dataset by task or by source network, in which no task belongs to two parts.

A split within tasks would let a model recognise tasks that it was trained on; no results are reported on such
a split. Tasks of one shape (`task_shapes`) count as one task.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...configuration import check_seed
from ...errors import UserError
from ...wording import counted
from ..features.table import LabelledFeatures

NETWORK_PREFIX = "network:"
"""Prefix of `LabelledFeatures.source` for a task of a network."""


class SplitError(UserError, ValueError):
    """The dataset cannot be split as configured."""


SPLITS = ("task", "network", "list", "checkpoint")


@dataclass(frozen=True)
class SplitConfig:
    """Settings of a split.

    `by="task"` holds out the share `test` of the tasks, stratified by operator. `by="network"` holds out the
    tasks of `networks`, or of a random share `test` of all networks if none is named, including tasks that
    they share with other networks; `training.evaluation.networks` turns it into a list. Either way the share
    `validation` of the remaining tasks is for validation, and tasks of one shape are in one part.
    `by="list"` takes `test_tasks` and `validation_tasks` by their hashes, with other tasks of their shapes,
    so that a part of a dataset can be split like the whole; a shape of both lists is for tests.
    `by="checkpoint"` keeps tasks in the parts that they had in the training of `checkpoint` and splits the
    others as `by="task"` does; `training.fitting.known_split` turns it into a list.
    """

    by: str = "task"
    validation: float = 0.1
    test: float = 0.1
    networks: list[str] = field(default_factory=list)
    seed: int = 0
    test_tasks: list[str] = field(default_factory=list)
    validation_tasks: list[str] = field(default_factory=list)
    checkpoint: str = ""

    def __post_init__(self) -> None:
        check_seed("split.seed", self.seed)
        if self.by not in SPLITS:
            raise SplitError(f"split.by={self.by!r} is unknown: choose one of {', '.join(SPLITS)}")
        if bool(self.checkpoint) != (self.by == "checkpoint"):
            raise SplitError(
                f"split.by={self.by!r} with split.checkpoint={self.checkpoint!r}: by=checkpoint needs one, "
                "and nothing else has one"
            )
        if (self.test_tasks or self.validation_tasks) and self.by != "list":
            raise SplitError(
                f"split.test_tasks and split.validation_tasks need split.by=list, but split.by={self.by!r}"
            )
        if both := sorted(set(self.test_tasks) & set(self.validation_tasks)):
            raise SplitError(
                f"split: task {both[0]} is in test_tasks and in validation_tasks: drop it from one"
            )
        for name in ("validation", "test"):
            share = getattr(self, name)
            if not 0 <= share < 1:
                raise SplitError(f"split.{name}={share}: choose a share in [0, 1)")
        if self.validation + self.test >= 1:
            raise SplitError(
                f"split.validation={self.validation} and split.test={self.test} leave nothing to train on: "
                "lower them until their sum is below 1"
            )
        if self.networks and self.by != "network":
            raise SplitError(
                f"split.networks={self.networks} needs split.by=network, but split.by={self.by!r}"
            )


@dataclass(frozen=True)
class Split:
    """Row indices of the three parts, each int64 and ascending."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]

    def part(self, name: str) -> NDArray[np.int64]:
        """Rows of the part "train", "validation" or "test"."""
        rows: NDArray[np.int64] = getattr(self, name)
        return rows


def split_rows(data: LabelledFeatures, config: SplitConfig, seen: Collection[str] = ()) -> Split:
    """Split that assigns every row to one part by the shape of its task; the seed determines it.

    Rows of one task stay together even if they come from several devices or sources. Tasks of `seen`, which a
    model that is trained further knows, are never held out, and neither are other tasks of their shapes.
    A split by network or by checkpoint is turned into a list first.

    Raises:
      SplitError: the dataset has no records, too few tasks for the parts, or a listed task without a record.
    """
    if len(data) == 0:
        raise SplitError("the dataset has no records: generate some with foretune generate")
    if config.by == "list":
        test = _listed(data, config.test_tasks, "test_tasks", seen)
        validation = _listed(data, config.validation_tasks, "validation_tasks", seen)
        return _split(data, test, validation & ~test)
    if config.by != "task":
        raise ValueError(f"split.by={config.by!r} is to be turned into a list first")
    rng = np.random.default_rng(config.seed)
    shapes, first_row = np.unique(data.shape, return_index=True)
    shapes = shapes[_spread_over(data.operator[first_row], rng)]
    fresh = ~np.isin(shapes, data.shape[with_shapes_of(data, seen)])
    held_out = _hold_out(fresh, config.test, rng)
    validates = _hold_out(fresh & ~held_out, config.validation, rng)
    return _split(data, *(np.isin(data.shape, shapes[chosen]) for chosen in (held_out, validates)))


def with_shapes_of(data: LabelledFeatures, tasks: Collection[str]) -> NDArray[np.bool_]:
    """Mask [n] of the rows of these tasks and of other tasks of their shapes."""
    of_tasks = np.isin(data.workload_hash, list(tasks))
    return of_tasks | np.isin(data.shape, np.unique(data.shape[of_tasks]))


def evenly_spaced(n: int, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Mask of a systematic sample of `share * n` of n positions, at least one unless `share` or n is 0."""
    chosen = np.zeros(n, dtype=np.bool_)
    count = min(max(round(share * n), 1), n) if share > 0 else 0
    if count:
        chosen[np.floor((np.arange(count) + rng.random()) * n / count).astype(np.int64)] = True
    return chosen


def _split(data: LabelledFeatures, test: NDArray[np.bool_], validation: NDArray[np.bool_]) -> Split:
    """Split by masks over the rows; raises SplitError if no task is left to train on."""
    train = ~test & ~validation
    if not train.any():
        tests, validations = (len(np.unique(data.workload_hash[mask])) for mask in (test, validation))
        raise SplitError(
            f"the dataset has {counted(tests + validations, 'task')}, which leaves none to train on, "
            f"with {tests} for test and {validations} for validation: add tasks with foretune generate, or "
            "set split.test=0 or split.validation=0"
        )
    return Split(*(np.flatnonzero(mask) for mask in (train, validation, test)))


def _listed(data: LabelledFeatures, listed: list[str], name: str, seen: Collection[str]) -> NDArray[np.bool_]:
    """Mask of the rows of the tasks that the configuration lists, and of other tasks of their shapes."""
    if unknown := sorted(set(listed) - set(data.workload_hash.tolist())):
        raise SplitError(
            f"split.{name}: the dataset has no record of {len(unknown)} of them, such as {unknown[0]}: leave "
            "them out"
        )
    if known := sorted(set(listed) & set(seen)):
        raise SplitError(
            f"split.{name}: the model has seen {len(known)} of them, such as {known[0]}: leave them out"
        )
    return with_shapes_of(data, listed)


def _spread_over(operators: NDArray[np.str_], rng: np.random.Generator) -> NDArray[np.int64]:
    """Random order of shapes, sorted by operator, so that `evenly_spaced` stratifies by operator."""
    shuffled = rng.permutation(len(operators))
    return shuffled[np.argsort(operators[shuffled], kind="stable")]


def _hold_out(candidates: NDArray[np.bool_], share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Mask of `share` of all positions, chosen evenly spaced among the candidates, at most all of them."""
    positions = np.flatnonzero(candidates)
    chosen = np.zeros(len(candidates), dtype=np.bool_)
    share_of_candidates = min(share * len(candidates) / max(len(positions), 1), 1.0)
    chosen[positions[evenly_spaced(len(positions), share_of_candidates, rng)]] = True
    return chosen
