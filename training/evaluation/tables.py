"""Tables that `foretune evaluate` prints: metrics by operator, scores of networks, and remarks on them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ...page import Column, Table, columns
from ...wording import counted, decimal, verb
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
    rows = []
    for operator in sorted({task["operator"] for task in result.per_task}):
        tasks = [task for task in result.per_task if task["operator"] == operator]
        means = {name: _mean([task[name] for task in tasks]) for name in COLUMNS}
        records = sum(task["records"] for task in tasks)
        rows.append(_row(operator, {"tasks": len(tasks), "records": records, **means}))
    of_operators = len(rows)
    rows += [_row("all", result.model.summary()), _row("random order", result.chance.summary())]
    heads = [
        Column("operator", text=True),
        Column("tasks"),
        Column("records", drop=2),
        *(Column(title, drop=1 if name == "peak_10" else 0) for name, title in COLUMNS.items()),
    ]
    return Table("Mean over tasks", heads, rows, rules=[of_operators - 1])


def network_table(result: Evaluation) -> Table:
    """Table with one line per network, whose tasks are weighted by their calls."""
    rows = [
        [
            *(network.network, f"{network.tasks:,}", f"{network.share:.0%}"),
            *(decimal(getattr(network, score)) for score in NETWORK_COLUMNS),
        ]
        for network in result.networks
    ]
    return Table("", columns("network", "tasks", "share of calls", *NETWORK_COLUMNS.values()), rows)


def _row(name: str, values: dict[str, Any]) -> list[str]:
    scores = (values[column] for column in COLUMNS)
    return [
        *(name, f"{values['tasks']:,}", f"{values['records']:,}"),
        *map(decimal, scores),
    ]


def _mean(values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def remarks(result: Evaluation, dataset: str) -> Iterator[str]:
    """Remarks on the metrics, one line each."""
    if result.seen_tasks:
        yield (
            f"warning: {result.seen_tasks:,} of these tasks {verb(result.seen_tasks, 'was', 'were')} trained "
            "on or chose the epoch, so these metrics do not test the model: part=unseen leaves them out"
        )
    if result.left_out_tasks:
        yield (
            f"{counted(result.left_out_tasks, 'test task')} {verb(result.left_out_tasks, 'is', 'are')} left "
            "out: the checkpoint was trained or validated on the same shapes, in another layout or with "
            "another epilogue"
        )
    if math.isnan(result.model.spearman):
        yield (
            "warning: no task has two programs of different latency, so there is nothing to rank: generate "
            "more records per task"
        )
    if result.unmeasured:
        yield f"no record of this part in {dataset} for {', '.join(result.unmeasured)}"
