"""Records of a table: the training records of its checkpoints, and the tasks to test on."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from foretune.dataset.features.table import LabelledFeatures
from foretune.dataset.records.merge import merge_datasets
from foretune.dataset.records.split import SplitConfig, split_rows
from foretune.dataset.records.store import RecordStore
from foretune.models.checkpoints.card import Card
from foretune.training.evaluation.task_scores import part_rows
from foretune.training.fitting.labels import Labels


class OtherRecordsError(ValueError):
    """The datasets do not hold the training records of a checkpoint."""


@dataclass(frozen=True)
class TableRecords:
    """Training, validation and test records of all models of a table."""

    data: LabelledFeatures
    split: SplitConfig
    left_out_tasks: int
    """Test tasks with too few programs, or whose shape is among the training or validation tasks."""


def merged(datasets: Sequence[str], folder: Path) -> Path:
    """Merges several datasets into a new folder; a single dataset is returned unchanged.

    A program that two of them have measured counts once, as in `foretune dataset merge`.
    """
    if len(datasets) == 1:
        return Path(datasets[0])
    shutil.rmtree(folder, ignore_errors=True)
    merge_datasets([RecordStore(Path(name)) for name in datasets], RecordStore(folder))
    return folder


def records_of(cards: dict[str, Card], data: LabelledFeatures) -> TableRecords:
    """Records of the tasks on the cards, split as the checkpoints' training split them.

    Args:
        cards: card of each checkpoint by its name; all must name the same tasks.
        data: records of the datasets with their training records.

    Raises:
        OtherRecordsError: the cards differ in their tasks, or the datasets hold other records than a
            checkpoint's training records.
    """
    (name, card), *others = cards.items()
    for other, its in others:
        if any(its.split.tasks(part) != card.split.tasks(part) for part in ("train", "validation", "test")):
            raise OtherRecordsError(
                f"{name} and {other} are of different splits: give each a table of its own"
            )
    _check_counts(cards, data)
    tested = part_rows(card.split, data, "test")
    rows = np.union1d(np.flatnonzero(np.isin(data.workload_hash, card.split.seen_tasks)), tested)
    test_tasks = np.unique(data.workload_hash[tested]).tolist()
    split = SplitConfig(by="list", test_tasks=test_tasks, validation_tasks=card.split.validation_tasks)
    return TableRecords(data.take(rows), split, len(card.split.test_tasks) - len(test_tasks))


def records_apart(
    data: LabelledFeatures, shapes: Collection[str], most_tasks: int | None, least_programs: int
) -> TableRecords:
    """Records without a checkpoint's split: a tenth of the tasks for validation, a tenth to test on.

    Args:
        shapes: shapes of separately tested tasks, which are neither trained nor tested on here.
        most_tasks: maximum number of tasks, chosen at random.
        least_programs: minimum of valid programs for a test task; a task with fewer is left out and counted.
    """
    names = np.unique(data.workload_hash[~np.isin(data.shape, np.asarray(shapes))])
    if most_tasks is not None:
        names = np.sort(np.random.default_rng(0).permutation(names)[:most_tasks])
    data = data.take(np.flatnonzero(np.isin(data.workload_hash, names)))
    rows = split_rows(data, SplitConfig())
    tests, validation = (
        np.unique(data.workload_hash[part]).tolist() for part in (rows.test, rows.validation)
    )
    short = set(tests) & short_tasks(data, least_programs)
    kept = without_tasks(data, short)
    split = SplitConfig(
        by="list", test_tasks=[name for name in tests if name not in short], validation_tasks=validation
    )
    return TableRecords(kept, split, len(short))


def short_tasks(data: LabelledFeatures, least_programs: int) -> set[str]:
    """Tasks with fewer valid programs."""
    names, counts = np.unique(data.workload_hash[np.isfinite(data.latency_s)], return_counts=True)
    enough = set(names[counts >= least_programs].tolist())
    return set(np.unique(data.workload_hash).tolist()) - enough


def without_tasks(data: LabelledFeatures, names: Collection[str]) -> LabelledFeatures:
    """Records of all other tasks."""
    return data.take(np.flatnonzero(~np.isin(data.workload_hash, sorted(names))))


def _check_counts(cards: dict[str, Card], data: LabelledFeatures) -> None:
    """Raises OtherRecordsError unless the training tasks have as many records as each card counts."""
    labels = Labels.of(data)
    for name, card in cards.items():
        train = np.flatnonzero(np.isin(data.workload_hash, card.split.train_tasks))
        kept = card.training["data"]
        usable = labels.usable(train, card.target.max_slowdown, kept["keep_slow"], kept["keep_failed"])
        counted = {
            "records": len(usable),
            "tasks": len(np.unique(data.workload_hash[usable])),
            "devices": np.unique(data.hardware_id[usable]).tolist(),
        }
        on_card = {"records": card.data.records, "tasks": card.data.tasks, "devices": card.data.hardware_ids}
        if counted != on_card:
            raise OtherRecordsError(
                f"{name} was trained on {on_card}, but the datasets have {counted} of its training tasks: "
                "give the datasets that it was trained on"
            )
