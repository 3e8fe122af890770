"""Fits of contestants on one split, with their metrics; stored fits are reused.

The predictions of a fit are stored in a folder named after its contestant and a hash of the data, split,
settings and seed that they depend on. So an interrupted comparison continues, and a changed one repeats only
the fits that change. Trainings have folders of their own, whose hash is without the test tasks, so that other
test tasks need no new training.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...compiler.structure import DRAFT_VERSION
from ...dataset.features.table import LabelledFeatures
from ...dataset.records.split import SplitConfig, split_rows
from ...files import write_whole, written_whole
from ...models.metrics.network_metrics import NetworkMetrics, network_metrics, over_networks
from ...models.metrics.task_metrics import Metrics, evaluate
from ...wording import counted, part_of, verb
from ..evaluation.task_scores import NothingToEvaluateError
from ..fitting.feature_source import drafts_of
from ..fitting.labels import Labels
from ..train import data_sha256
from .contestants import ContestantInput, Fit, ModelContestant

Networks = Mapping[str, Mapping[str, float]]
"""Weight of each task of a network, by workload hash."""


@dataclass(frozen=True)
class TaskSet:
    """Test tasks: their measured records, and the networks that they belong to."""

    latency_s: NDArray[np.float64]  # [n]
    group: NDArray[np.int64]  # [n], equal for programs that are compared
    score: NDArray[np.float64]  # [n]
    workload: dict[int, str]  # of each group
    operator: dict[int, str]  # of each group
    hardware: dict[int, str]  # of each group
    networks: Networks

    @classmethod
    def of(cls, data: LabelledFeatures, rows: NDArray[np.int64], networks: Networks) -> TaskSet:
        """Some rows of a dataset; raises NothingToEvaluateError if no program ran or none can be ranked."""
        if not np.isfinite(data.latency_s[rows]).any():
            raise NothingToEvaluateError(
                f"{part_of(len(rows), len(data), 'record')} {verb(len(rows), 'belongs', 'belong')} to test "
                "tasks, and none ran: raise split.test, or change split.seed"
            )
        labels = Labels.of(data)
        if not labels.ranks(rows):
            raise NothingToEvaluateError(
                "no test task has two programs of different latency among "
                f"{counted(len(rows), 'test record')}, so there is nothing to rank: generate more records "
                "per task, or raise split.test"
            )
        group = labels.group[rows]
        groups, first = np.unique(group, return_index=True)
        names = {
            column: dict(
                zip(groups.tolist(), getattr(data, column)[rows[first]].astype(str).tolist(), strict=True)
            )
            for column in ("workload_hash", "operator", "hardware_id")
        }
        return cls(
            data.latency_s[rows],
            group,
            labels.score[rows],
            names["workload_hash"],
            names["operator"],
            names["hardware_id"],
            networks,
        )


@dataclass(frozen=True)
class Entry:
    """Result of one contestant with one seed, trained on one set of tasks."""

    name: str
    seed: int | None  # None if the seed has no effect
    prediction: NDArray[np.float32]  # of the test rows
    metrics: Metrics
    networks: list[NetworkMetrics]
    all_networks: NetworkMetrics | None
    facts: dict[str, Any]
    reused: bool

    def by_operator(self, tasks: TaskSet) -> dict[str, dict[str, float]]:
        """Means over the tasks of each operator, for the metrics that are averaged over tasks."""
        found = {}
        for operator in sorted(set(tasks.operator.values())):
            own = [task for task in self.metrics.per_task if tasks.operator[task.group] == operator]
            if own:
                columns = {name: [getattr(task, name) for task in own] for name in PER_TASK}
                found[operator] = {"tasks": float(len(own)), **{n: _mean(c) for n, c in columns.items()}}
        return found


PER_TASK = (
    "spearman",
    "pairwise_accuracy",
    "top_1",
    "top_5",
    "top_10",
    "peak_5",
    "peak_10",
    "recall_5",
    "recall_10",
    "regret_1",
    "regret_5",
)
"""Metrics of single tasks."""


@dataclass(frozen=True)
class FitRunner:
    """Fits contestants on one dataset and split, and stores the fits in one folder.

    Draft models read the draft vectors of the same rows.
    """

    data: LabelledFeatures
    split: SplitConfig
    feature_version: str
    folder: Path  # contains a folder for each fit
    log: Callable[[str], None]
    deadline: float = math.inf  # no fit starts after it; on the clock of `time.monotonic`
    left_out: list[str] = field(default_factory=list)  # receives the fits that have not started by then

    def fits(
        self, contestants: Sequence[ModelContestant], seeds: Sequence[int], tasks: TaskSet
    ) -> Iterator[Entry]:
        """Entry of every contestant, with every seed if seeds have an effect, in order."""
        split = split_rows(self.data, self.split)
        content = data_sha256(self.data)
        trained = np.sort(np.concatenate([split.train, split.validation]))
        trained_on = [
            data_sha256(self.data.take(trained)),
            np.unique(self.data.workload_hash[split.validation]).tolist(),
        ]
        work = [(c, seed) for c in contestants for seed in (seeds if c.seeded else seeds[:1])]
        for number, (contestant, seed) in enumerate(work):
            title = f"[{number + 1}/{len(work)}] {contestant.name}"
            title += f", seed {seed}" if contestant.seeded and len(seeds) > 1 else ""
            version = DRAFT_VERSION if contestant.drafts else self.feature_version
            of_fit = [version, type(contestant).__name__, contestant.settings(), seed]
            name = _file_name(contestant.name)
            folder = self.folder / f"{name}-{_digest([content, asdict(self.split), *of_fit])}"
            fit, reused = _read(folder, len(split.test)), True
            if fit is None and time.monotonic() > self.deadline:
                self.log(f"{title}: left out, the time is up")
                self.left_out.append(title.partition(" ")[2])
                continue
            if fit is None:
                self.log(f"{title}: fits")
                folder.mkdir(parents=True, exist_ok=True)
                trial = ContestantInput(
                    drafts_of(self.data) if contestant.drafts else self.data,
                    split,
                    version,
                    seed,
                    self.folder / f"{name}-trained-{_digest([*trained_on, *of_fit])}",
                    lambda text, title=title: self.log(f"{title}: {text}"),  # type: ignore[misc]
                )
                fit, reused = contestant.fit(trial), False
                _write(folder, fit)
            entry = _entry(contestant, seed, fit, reused, tasks)
            self.log(f"{title}: {'as fitted before' if reused else _took(fit)}  {entry.metrics}")
            yield entry


def _entry(contestant: ModelContestant, seed: int, fit: Fit, reused: bool, tasks: TaskSet) -> Entry:
    metrics = evaluate(fit.prediction, tasks.latency_s, tasks.group)
    return Entry(
        contestant.name,
        seed if contestant.seeded else None,
        fit.prediction,
        metrics,
        network_metrics(metrics, tasks.workload, tasks.networks),
        over_networks(metrics, tasks.workload, tasks.networks),
        fit.facts,
        reused,
    )


def _read(folder: Path, rows: int) -> Fit | None:
    """Complete stored fit, or None."""
    try:
        facts = json.loads((folder / "fit.json").read_text(encoding="utf-8"))
        prediction = np.load(folder / "prediction.npy", allow_pickle=False)
    except (OSError, ValueError):
        return None
    return Fit(prediction, facts) if prediction.shape == (rows,) else None


def _write(folder: Path, fit: Fit) -> None:
    with written_whole(folder / "prediction.npy") as partial, partial.open("wb") as file:
        np.save(file, fit.prediction, allow_pickle=False)
    # Written last, as its presence marks the fit as complete.
    write_whole(folder / "fit.json", json.dumps(fit.facts, indent=2) + "\n")


def _took(fit: Fit) -> str:
    return f"took {fit.facts['seconds']:.0f} s" if "seconds" in fit.facts else "done"


def _digest(values: Sequence[Any]) -> str:
    """12 hex digits of JSON values."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name)[-40:]


def _mean(values: Sequence[float]) -> float:
    known = np.array([value for value in values if not np.isnan(value)])
    return float(known.mean()) if len(known) else float("nan")
