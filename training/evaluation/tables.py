"""Tables that `foretune evaluate` prints: metrics by operator, scores of networks, and remarks on them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from rich.table import Table

from .task_scores import Evaluation

COLUMNS = {
    "spearman": "spearman",
    "pairwise_accuracy": "pairs",
    "top_1": "top-1",
    "top_5": "top-5",
    "peak_10": "peak@10",
}
"""Metrics of the printed table and their titles."""

NETWORK_COLUMNS = {
    f"top_{k}{suffix}": f"top-{k}, {kind}"
    for suffix, kind in {"": "mean of ratios", "_sums": "ratio of sums"}.items()
    for k in (1, 5)
}
"""Scores of a network and their titles."""


def evaluation_table(result: Evaluation) -> Table:
    """Table with one line per operator, then all tasks and random order."""
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
    """Table with one line per network, whose tasks are weighted by their calls."""
    table = Table("network", "tasks", "share of calls", *NETWORK_COLUMNS.values())
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    for network in result.networks:
        cells = [f"{getattr(network, score):.3f}" for score in NETWORK_COLUMNS]
        table.add_row(network.network, str(network.tasks), f"{network.share:.0%}", *cells)
    return table


def _add_row(table: Table, name: str, values: dict[str, Any], style: str | None = None) -> None:
    cells = [f"{values[column]:.3f}" for column in COLUMNS]
    table.add_row(name, str(values["tasks"]), str(values["records"]), *cells, style=style)


def _mean(values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def remarks(result: Evaluation, dataset: str) -> Iterator[str]:
    """Remarks on the metrics, one line each."""
    if result.seen_tasks:
        yield (
            f"warning: {result.seen_tasks} of these tasks were trained on or chose the epoch, so these "
            "metrics do not test the model: part=unseen leaves the tasks out"
        )
    if result.left_out_tasks:
        yield (
            f"{result.left_out_tasks} test tasks are left out: the checkpoint was trained or validated on "
            "their shapes, in another layout or with another epilogue"
        )
    if math.isnan(result.model.spearman):
        yield (
            "warning: no task has two programs of different latency, so there is nothing to rank: generate "
            "more records per task"
        )
    if result.unmeasured:
        yield f"no record of this part in {dataset} for {', '.join(result.unmeasured)}"
