"""Metrics of a checkpoint on one part of a dataset, by task and by network, and those of random order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...dataset.features.table import LabelledFeatures
from ...errors import UserError
from ...models.checkpoints.card import SplitSummary
from ...models.checkpoints.checkpoint import Checkpoint
from ...models.metrics.network_metrics import NetworkMetrics, network_metrics, over_networks
from ...models.metrics.task_metrics import Metrics, TaskMetrics, evaluate
from ...wording import part_of, verb
from ..fitting.labels import Labels
from .prediction import predict

PARTS = ("unseen", "train", "validation", "test", "all")
"""Parts of a dataset that can be evaluated; see `part_rows`."""


class NothingToEvaluateError(UserError, ValueError):
    """The dataset has no record of the part asked for."""


@dataclass(frozen=True)
class Evaluation:
    """Metrics of a checkpoint, and of random predictions on the same records for comparison."""

    model: Metrics
    chance: Metrics
    per_task: list[dict[str, Any]]  # metrics of each task with its names
    networks: list[NetworkMetrics] = field(default_factory=list)  # each network, then all of them
    facts: dict[str, Any] = field(default_factory=dict)  # facts on the model, see `prediction.predict`
    seen_tasks: int = 0  # evaluated tasks that the model has seen
    left_out_tasks: int = 0  # test tasks that are not evaluated, as the model has seen their shape
    unmeasured: list[str] = field(default_factory=list)  # networks without an evaluated task


def evaluate_checkpoint(
    checkpoint: Checkpoint,
    data: LabelledFeatures,
    part: str = "unseen",
    seed: int = 0,
    networks: Mapping[str, Mapping[str, float]] | None = None,
) -> Evaluation:
    """Evaluation on the records of one of `PARTS`.

    `networks` contains the weight of each task of a network, by workload hash.

    Raises:
      NothingToEvaluateError: the part is empty or none of its programs ran.
    """
    rows = part_rows(checkpoint.card.split, data, part)
    if not np.isfinite(data.latency_s[rows]).any():
        other = "" if part == "all" else " or part, such as part=all, which includes seen tasks"
        raise NothingToEvaluateError(
            f"part={part}: {part_of(len(rows), len(data), 'record')} "
            f"{verb(len(rows), 'belongs', 'belong')} to "
            f"it, and none ran: choose another dataset{other}"
        )
    labels = Labels.of(data)
    latency_s, group = data.latency_s[rows], labels.group[rows]
    prediction, facts = predict(checkpoint, data, rows)
    model = evaluate(prediction, latency_s, group)
    chance = evaluate(np.random.default_rng(seed).random(len(rows)), latency_s, group)
    first_row = dict(zip(group[::-1].tolist(), rows[::-1].tolist(), strict=True))
    per_task = [_named(task, data, first_row[task.group]) for task in model.per_task]
    names = {group: str(data.workload_hash[row]) for group, row in first_row.items()}
    together = over_networks(model, names, networks or {})
    by_network = [*network_metrics(model, names, networks or {}), *([together] if together else [])]
    seen = {*names.values()} & {*checkpoint.card.split.seen_in(data)}
    measured = {network.network for network in by_network}
    unmeasured = [network for network in networks or {} if network not in measured]
    left_out = _left_out(checkpoint.card.split, data) if part == "test" else 0
    return Evaluation(model, chance, per_task, by_network, facts, len(seen), left_out, unmeasured)


def part_rows(split: SplitSummary, data: LabelledFeatures, part: str) -> NDArray[np.int64]:
    """Rows of the dataset whose task belongs to the part, by the hashes of tasks and shapes on the card.

    The part "test" leaves out tasks whose shape the checkpoint was trained or validated on, as its split may
    be older than the definition of a shape.
    """
    if part == "all":
        return np.arange(len(data))
    if part == "unseen":
        return np.flatnonzero(~split.saw(data))
    rows = np.isin(data.workload_hash, split.tasks(part))
    return np.flatnonzero(rows & ~split.saw(data) if part == "test" else rows)


def _left_out(split: SplitSummary, data: LabelledFeatures) -> int:
    """Number of the card's test tasks in the dataset that `part_rows` leaves out."""
    return len(set(split.test_tasks) & set(split.seen_in(data)))


def _named(task: TaskMetrics, data: LabelledFeatures, row: int) -> dict[str, Any]:
    names = {
        name: str(getattr(data, name)[row]) for name in ("workload_hash", "hardware_id", "operator", "source")
    }
    values = asdict(task)
    del values["group"]
    return {**names, **values}
