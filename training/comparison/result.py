"""Result of a comparison, as rows of a table, as JSON and as CSV."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...files import write_whole, written_whole
from ...models.metrics.margins import Margin, paired_margin
from .fits import PER_TASK, Entry, TaskSet
from .learning_curve import TrainingSet

MEASURES = (
    "rmse",
    "r2",
    "log_r2",
    "spearman",
    "pairwise_accuracy",
    "top_1",
    "top_5",
    "top_10",
    "top_1_sums",
    "top_5_sums",
    "top_10_sums",
    "peak_5",
    "peak_10",
    "recall_5",
    "recall_10",
    "regret_1",
    "regret_5",
)
"""Metrics over all test tasks, defined in `models.metrics.task_metrics`."""

LOWER_IS_BETTER = {"rmse", "regret_1", "regret_5"}


@dataclass(frozen=True)
class ContestantRow:
    """Metrics of one contestant over its seeds."""

    name: str
    seeds: int
    means: dict[str, float]
    deviations: dict[str, float]  # over the seeds, NaN for one
    facts: dict[str, Any]


@dataclass(frozen=True)
class Standing:
    """The contestant with the best mean of a metric, and whether the test tasks show that it is the best."""

    best: str
    mean: float
    level: list[str]
    """Other contestants whose margin behind the best is not clear, in order; see `Margin.clear`."""
    tasks: int
    """Number of test tasks that have the metric."""

    @property
    def clear(self) -> bool:
        """Whether the best is clearly better than every other contestant."""
        return not self.level


@dataclass(frozen=True)
class CurvePoint:
    """One contestant trained on one training set of a learning curve."""

    training: TrainingSet
    entry: Entry


@dataclass(frozen=True)
class ModelComparison:
    """Results of all contestants, and the data that they were compared on."""

    title: str
    config: dict[str, Any]
    data: dict[str, Any]  # content hash, counts by part, devices
    tasks: TaskSet
    entries: list[Entry]
    curve: list[CurvePoint] = field(default_factory=list)

    def names(self) -> list[str]:
        """Names of the contestants in order."""
        return list(dict.fromkeys(entry.name for entry in self.entries))

    def of(self, name: str) -> list[Entry]:
        """Entries of one contestant, one per seed."""
        return [entry for entry in self.entries if entry.name == name]

    def rows(self) -> list[ContestantRow]:
        """One row per contestant."""
        return [row_of(self.of(name)) for name in self.names()]

    def margins(self, baseline: str) -> dict[str, dict[str, Margin]]:
        """Contestant -> metric -> margin against the baseline; empty if the baseline did not take part."""
        if baseline not in self.names():
            return {}
        base = self.of(baseline)
        return {
            name: {measure: _margin(self.of(name), base, measure) for measure in PER_TASK}
            for name in self.names()
            if name != baseline
        }

    def standing(self, measure: str) -> Standing | None:
        """The standing by a metric of `PER_TASK`; None if it is defined on no test task."""
        means = {row.name: row.means[measure] for row in self.rows()}
        known = {name: mean for name, mean in means.items() if not math.isnan(mean)}
        if not known:
            return None
        best = (min if measure in LOWER_IS_BETTER else max)(known, key=lambda name: known[name])
        margins = {
            name: _margin(self.of(best), self.of(name), measure) for name in self.names() if name != best
        }
        tasks = int(np.count_nonzero(~np.isnan(_measure_by_task(self.of(best), measure))))
        level = [name for name, margin in margins.items() if not margin.clear]
        return Standing(best, known[best], level, tasks)

    def by_operator(self, name: str) -> dict[str, dict[str, float]]:
        """Means by operator of one contestant over its seeds."""
        found = [entry.by_operator(self.tasks) for entry in self.of(name)]
        return {
            operator: {m: float(np.mean([by[operator][m] for by in found])) for m in found[0][operator]}
            for operator in found[0]
        }

    def by_network(self, name: str) -> list[dict[str, Any]]:
        """Means over the seeds of one contestant, for each network and for all networks together."""
        of_seeds = [[*e.networks, *([e.all_networks] if e.all_networks else [])] for e in self.of(name)]
        return [
            {
                key: value if isinstance(value, str) else float(np.mean([getattr(n, key) for n in networks]))
                for key, value in asdict(networks[0]).items()
            }
            for networks in zip(*of_seeds, strict=True)
        ]

    def to_json(self, baseline: str) -> dict[str, Any]:
        """All results as JSON values; undefined values are null."""
        values = {
            "title": self.title,
            "config": self.config,
            "data": self.data,
            "contestants": [asdict(row) for row in self.rows()],
            "margins": {
                name: {measure: asdict(margin) for measure, margin in of.items()}
                for name, of in self.margins(baseline).items()
            },
            "standings": {
                measure: asdict(found)
                for measure in PER_TASK
                if (found := self.standing(measure)) is not None
            },
            "by_operator": {name: self.by_operator(name) for name in self.names()},
            "networks": {name: self.by_network(name) for name in self.names()},
            "fits": [_fit(entry, self.tasks) for entry in self.entries],
            "curve": [
                {
                    "axis": point.training.axis,
                    "size": point.training.size,
                    "tasks": point.training.tasks,
                    "records": point.training.records,
                    "name": point.entry.name,
                    "seed": point.entry.seed,
                    **point.entry.metrics.summary(),
                }
                for point in self.curve
            ],
        }
        plain: dict[str, Any] = _finite(values)
        return plain


def row_of(entries: Sequence[Entry]) -> ContestantRow:
    """Row of one contestant, given its entries for all seeds."""
    table = np.array([[getattr(entry.metrics, name) for name in MEASURES] for entry in entries])
    several = len(entries) > 1
    deviation = table.std(axis=0, ddof=1) if several else np.full(len(MEASURES), np.nan)
    return ContestantRow(
        entries[0].name,
        len(entries),
        dict(zip(MEASURES, table.mean(axis=0).tolist(), strict=True)),
        dict(zip(MEASURES, deviation.tolist(), strict=True)),
        entries[0].facts,
    )


def write_comparison(comparison: ModelComparison, folder: Path, baseline: str) -> None:
    """Writes compare.json, and compare.csv with one line per contestant and seed."""
    text = json.dumps(comparison.to_json(baseline), indent=2, allow_nan=False)
    write_whole(folder / "compare.json", text + "\n")
    with (
        written_whole(folder / "compare.csv") as partial,
        partial.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(["name", "seed", *MEASURES])
        for entry in comparison.entries:
            values = [getattr(entry.metrics, name) for name in MEASURES]
            writer.writerow([entry.name, "" if entry.seed is None else entry.seed, *values])


def _margin(own: Sequence[Entry], base: Sequence[Entry], measure: str) -> Margin:
    """Margin of paired differences by task, after averaging over seeds."""
    difference = _measure_by_task(own, measure) - _measure_by_task(base, measure)
    return paired_margin(difference * (-1 if measure in LOWER_IS_BETTER else 1))


def _measure_by_task(entries: Sequence[Entry], measure: str) -> np.ndarray:
    return np.mean([[getattr(t, measure) for t in e.metrics.per_task] for e in entries], axis=0)


def _fit(entry: Entry, tasks: TaskSet) -> dict[str, Any]:
    per_task = []
    for task in entry.metrics.per_task:
        values = asdict(task)
        group = values.pop("group")
        per_task.append(
            {
                "workload_hash": tasks.workload[group],
                "operator": tasks.operator[group],
                "hardware_id": tasks.hardware[group],
                **values,
            }
        )
    return {
        "name": entry.name,
        "seed": entry.seed,
        "facts": entry.facts,
        "overall": entry.metrics.summary(),
        "per_task": per_task,
    }


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value
