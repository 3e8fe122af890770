"""Records of a table: those that its checkpoints were trained on, and the tasks to test on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from foretune.dataset.features.table import LabelledFeatures
from foretune.dataset.split import SplitConfig
from foretune.models.card import Card
from foretune.training.evaluation import part_rows
from foretune.training.labels import Labels


class OtherRecordsError(ValueError):
    """The datasets do not hold the records that a checkpoint was trained on."""


@dataclass(frozen=True)
class TableRecords:
    """Training, validation and test records of all models of a table."""

    data: LabelledFeatures
    split: SplitConfig
    left_out_tasks: int
    """Test tasks of the cards whose shape is among the training or validation tasks."""


def united(parts: Sequence[LabelledFeatures]) -> LabelledFeatures:
    """Records of several datasets as `foretune dataset merge` unites them.

    A task of several datasets has the shape, operator and source that the first of them gives.
    """
    data = LabelledFeatures.concatenate(parts)
    _, first, task = np.unique(data.workload_hash, return_index=True, return_inverse=True)
    described = {name: getattr(data, name)[first][task] for name in ("shape", "operator", "source")}
    return replace(data, **described)


def records_of(cards: dict[str, Card], data: LabelledFeatures) -> TableRecords:
    """Records of the tasks on the cards, split as the checkpoints' training split them.

    Args:
        cards: card of each checkpoint by its name; all must name the same tasks.
        data: records of the datasets that they were trained on.

    Raises:
        OtherRecordsError: the cards differ in their tasks, or the datasets hold other records than a
            checkpoint was trained on.
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
