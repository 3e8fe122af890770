"""Evaluates a checkpoint on the measured tasks of a dataset (`foretune-evaluate`)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import hydra
import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from ..configuration import from_hydra
from ..dataset.features.table import LabelledFeatures
from ..errors import UserError, exits_cleanly
from ..models.card import SplitSummary
from ..models.checkpoint import Checkpoint
from ..models.metrics import Metrics, TaskMetrics, evaluate
from ..models.network_metrics import NetworkMetrics, network_metrics, over_networks
from .config import EvaluateConfig, plain
from .evaluation_networks import evaluation_networks
from .feature_source import load_with_features
from .labels import Labels
from .prediction import predict

COLUMNS = {
    "spearman": "spearman",
    "pairwise_accuracy": "pairs",
    "top_1": "top-1",
    "top_5": "top-5",
    "peak_10": "peak@10",
}
"""Metrics of the printed table and their titles."""


class NothingToEvaluateError(UserError, ValueError):
    """The dataset has no record of the part asked for."""


@dataclass(frozen=True)
class Evaluation:
    """Metrics of a checkpoint and, for comparison, of random predictions on the same records."""

    model: Metrics
    chance: Metrics
    per_task: list[dict[str, Any]]  # names of the task beside its metrics
    networks: list[NetworkMetrics] = field(default_factory=list)  # by network, then all of them
    facts: dict[str, Any] = field(default_factory=dict)  # what `prediction.predict` tells of the model


def run(config: EvaluateConfig) -> Evaluation:
    """Evaluates a checkpoint on a dataset and writes `config.output` as JSON.

    Raises:
      UserError: checkpoint or dataset are not usable; the message says what to do.
    """
    checkpoint, data = load_with_features(config.checkpoint, config.dataset)
    networks = evaluation_networks(config.dataset, data)
    result = evaluate_checkpoint(checkpoint, data, config.part, config.seed, networks)
    write_evaluation(result, checkpoint, config)
    return result


def evaluate_checkpoint(
    checkpoint: Checkpoint,
    data: LabelledFeatures,
    part: str = "unseen",
    seed: int = 0,
    networks: Mapping[str, Mapping[str, float]] | None = None,
) -> Evaluation:
    """Evaluates on the records of one part; see `EvaluateConfig` for the parts.

    `networks` gives the weight of each task of a network, by workload hash.

    Raises:
      NothingToEvaluateError: the part is empty or none of its programs ran.
    """
    rows = part_rows(checkpoint.card.split, data, part)
    if not np.isfinite(data.latency_s[rows]).any():
        raise NothingToEvaluateError(
            f"part={part}: {len(rows)} of {len(data)} records belong to it, and none of them ran: choose "
            "another part or dataset, or part=all, which includes tasks that the checkpoint has seen"
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
    return Evaluation(model, chance, per_task, by_network, facts)


def part_rows(split: SplitSummary, data: LabelledFeatures, part: str) -> NDArray[np.int64]:
    """Rows of the dataset whose task belongs to the part, by the task hashes on the card."""
    if part == "all":
        return np.arange(len(data))
    if part == "unseen":
        return np.flatnonzero(~np.isin(data.workload_hash, split.seen_tasks))
    return np.flatnonzero(np.isin(data.workload_hash, split.tasks(part)))


def write_evaluation(result: Evaluation, checkpoint: Checkpoint, config: EvaluateConfig) -> None:
    """Writes overall and per-task metrics, with what they were measured on."""
    values = {
        "config": plain(config),
        "checkpoint": {
            "path": str(checkpoint.path),
            "weights_sha256": checkpoint.card.weights_sha256,
            "feature_version": checkpoint.card.feature_version,
        },
        "overall": _json(result.model.summary()),
        "chance": _json(result.chance.summary()),
        "facts": _json(result.facts),
        "networks": [_json(asdict(network)) for network in result.networks],
        "per_task": [_json(task) for task in result.per_task],
    }
    config.output.parent.mkdir(parents=True, exist_ok=True)
    config.output.write_text(json.dumps(values, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def evaluation_table(result: Evaluation) -> Table:
    """One line an operator, then all tasks and chance."""
    table = Table("operator", "tasks", "records", *COLUMNS.values(), title="mean over tasks")
    for column in table.columns[1:]:
        column.justify = "right"
    operators = sorted({task["operator"] for task in result.per_task})
    for operator in operators:
        tasks = [task for task in result.per_task if task["operator"] == operator]
        means = {name: _mean([task[name] for task in tasks]) for name in COLUMNS}
        _add_row(table, operator, {"tasks": len(tasks), "records": sum(t["records"] for t in tasks), **means})
    table.add_section()
    _add_row(table, "all", result.model.summary())
    _add_row(table, "random order", result.chance.summary(), style="dim")
    return table


def network_table(result: Evaluation) -> Table:
    """One line a network, its tasks weighted by their calls."""
    kinds = {"": "mean of ratios", "_sums": "ratio of sums"}
    columns = [f"top-{k}, {kind}" for kind in kinds.values() for k in (1, 5)]
    table = Table("network", "tasks", "share of calls", *columns)
    for column in table.columns[1:]:
        column.justify = "right"
    for network in result.networks:
        cells = [f"{getattr(network, f'top_{k}{kind}'):.3f}" for kind in kinds for k in (1, 5)]
        table.add_row(network.network, str(network.tasks), f"{network.share:.0%}", *cells)
    return table


def _add_row(table: Table, name: str, values: dict[str, Any], style: str | None = None) -> None:
    cells = [f"{values[column]:.3f}" for column in COLUMNS]
    table.add_row(name, str(values["tasks"]), str(values["records"]), *cells, style=style)


def _named(task: TaskMetrics, data: LabelledFeatures, row: int) -> dict[str, Any]:
    names = {
        name: str(getattr(data, name)[row]) for name in ("workload_hash", "hardware_id", "operator", "source")
    }
    values = asdict(task)
    del values["group"]
    return {**names, **values}


def _mean(values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def _json(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in values.items()
    }


@hydra.main(version_base="1.3", config_path="pkg://foretune.conf", config_name="evaluate")
@exits_cleanly()
def main(config: DictConfig) -> None:
    """Entry point: composes, validates, evaluates, prints a table."""
    settings = from_hydra(config, EvaluateConfig)
    result = run(settings)
    Console().print(evaluation_table(result))
    told = f"predicted scores: RMSE {result.model.rmse:.3f}, R2 {result.model.r2:.3f}"
    told += f", R2 of their logarithms {result.model.log_r2:.3f}"
    if "latency_r2" in result.facts:
        told += f"; R2 of the logarithms of predicted latencies {result.facts['latency_r2']:.3f}"
    print(told)
    if result.networks:
        Console().print(network_table(result))
    print(f"wrote {settings.output}")


if __name__ == "__main__":
    main()
