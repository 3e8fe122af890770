"""What a report says, shared by its two forms: the terminal's table and the page."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..figures import significant
from ..models.metrics import spearman
from ..page import Fact
from .energy import estimate_energy
from .tune_result import EAGER, TUNED, UNTUNED, TaskResult, TuneResult, by_tasks_s, untuned_by_tasks_s

MISSING = "-"
WHOLE_NETWORK = "one run of the network"
"""Name of the last line of the task table."""


@dataclass(frozen=True)
class Row:
    """A task with its share of the network's time, in [0, 1], None where no latency is known."""

    task: TaskResult
    share: float | None


@dataclass(frozen=True)
class Column:
    """A column of the task table."""

    title: str
    value: Callable[[Row], str | float | None]
    """What a reader sorts by."""
    show: Callable[[float], str] = lambda number: f"{number:,.0f}"
    total: Callable[[list[Row]], float | None] | None = None
    """Of all rows, shown like a value in the last line of the table; None for a column without."""

    def cell(self, row: Row) -> str:
        return self._text(self.value(row))

    def footer(self, rows: list[Row]) -> str:
        return "" if self.total is None else self._text(self.total(rows))

    def _text(self, value: str | float | None) -> str:
        if value is None:
            return MISSING
        return value if isinstance(value, str) else self.show(value)


def rows(result: TuneResult) -> list[Row]:
    """The tasks, those with the largest share of the network's time first."""
    pairs = [Row(task, share) for task, share in zip(result.tasks, result.shares(), strict=True)]
    return sorted(pairs, key=lambda row: -1.0 if row.share is None else row.share, reverse=True)


def milliseconds(seconds: float) -> str:
    """82.1 ms"""
    return f"{significant(seconds * 1e3)} ms"


def duration(seconds: float) -> str:
    """14.3 s, 2 min 05 s, 1 h 07 min"""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def rank_correlation(result: TuneResult) -> float | None:
    """Spearman of predicted and measured score within a task, averaged over tasks.

    A task counts from three candidates on, unless they all measured the same. None where no task counts.
    """
    correlations = [
        spearman(np.asarray(task.predicted_scores), np.asarray(task.measured_scores))
        for task in result.tasks
        if len(task.predicted_scores) >= 3
    ]
    known = [correlation for correlation in correlations if not math.isnan(correlation)]
    return sum(known) / len(known) if known else None


def facts(result: TuneResult) -> list[Fact]:
    """The summary: speed, correctness, cost."""
    found = [_ratio(result, name) for name in (UNTUNED, EAGER) if result.speedup_over(name) is not None]
    found += _untuned_by_tasks(result)
    tuned = sum(task.tuned_latency_s is not None for task in result.tasks)
    scored = sum(task.candidates_scored for task in result.tasks)
    measured = sum(task.candidates_measured for task in result.tasks)
    failed = sum(task.candidates_failed for task in result.tasks)
    return [
        *found,
        _outputs(result),
        Fact(
            "Wall time",
            duration(result.total_s),
            f"{tuned} of {len(result.tasks)} tasks tuned; "
            f"candidates: {scored:,} scored, {measured:,} measured, {failed:,} failed",
        ),
        *_energy(result),
    ]


def _energy(result: TuneResult) -> list[Fact]:
    """What the run cost by the assumptions of the result (One-Shot Tuner section 7)."""
    estimate = estimate_energy(result)
    if estimate is None:
        return []
    detail = f"if {result.power_w:g} W are drawn and a kWh emits {result.co2_kg_per_kwh:g} kg of CO2"
    if estimate.runs_to_pay_back is not None:
        detail += f"; paid back after {estimate.runs_to_pay_back:,.0f} runs against {estimate.peer}"
    value = f"{significant(estimate.kwh * 1e3)} Wh, {significant(estimate.co2_kg * 1e3)} g CO2"
    return [Fact("Energy, estimated", value, detail)]


def _ratio(result: TuneResult, name: str) -> Fact:
    tuned, other = result.latency(TUNED), result.latency(name)
    assert tuned is not None and other is not None
    detail = f"median {milliseconds(tuned.median_s)} against {milliseconds(other.median_s)}"
    return _against(name, other.median_s / tuned.median_s, detail)


def _against(name: str, ratio: float, detail: str, about: str = "") -> Fact:
    """`ratio` is of the other's latency to the tuned network's."""
    faster = ratio >= 1
    value = f"{about}{significant(ratio if faster else 1 / ratio)}x {'faster' if faster else 'slower'}"
    return Fact(f"Against {name}", value, detail, faster)


def _untuned_by_tasks(result: TuneResult) -> list[Fact]:
    """The ratio to the untuned network where that one was not timed: what its tasks take together."""
    tuned, untuned_s = result.latency(TUNED), untuned_by_tasks_s(result.tasks)
    if tuned is None or untuned_s is None or result.latency(UNTUNED) is not None:
        return []
    together = f"untuned tasks take {milliseconds(untuned_s)} a run together"
    detail = f"median {milliseconds(tuned.median_s)}; {together}"
    return [_against(UNTUNED, untuned_s / tuned.median_s, detail, "about ")]


def _outputs(result: TuneResult) -> Fact:
    if result.max_abs_difference is None:
        return Fact("Outputs", "not compared", "there was no reference to compare with")
    return Fact(
        "Outputs",
        "equal" if result.outputs_match else "differ",
        f"largest difference {result.max_abs_difference:.1e}, tolerance {result.tolerance:.1e}",
        result.outputs_match,
    )


def _milli(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _network_total(latency: Callable[[TaskResult], float | None]) -> Callable[[list[Row]], float | None]:
    """Milliseconds that a run of the network takes in all tasks, None unless all of them are known."""

    def total(table: list[Row]) -> float | None:
        return _milli(by_tasks_s([row.task for row in table], latency))

    return total


def _total_speedup(table: list[Row]) -> float | None:
    before = _network_total(lambda task: task.untuned_latency_s)(table)
    after = _network_total(lambda task: task.tuned_latency_s)(table)
    return None if before is None or after is None else before / after


COLUMNS = (
    Column("Task", lambda row: row.task.name),
    Column("Weight", lambda row: row.task.weight, total=lambda table: sum(row.task.weight for row in table)),
    Column(
        "GFLOP",
        lambda row: row.task.flops / 1e9,
        significant,
        lambda table: sum(row.task.weight * row.task.flops for row in table) / 1e9,
    ),
    Column(
        "Untuned ms",
        lambda row: _milli(row.task.untuned_latency_s),
        significant,
        _network_total(lambda task: task.untuned_latency_s),
    ),
    Column(
        "Tuned ms",
        lambda row: _milli(row.task.tuned_latency_s),
        significant,
        _network_total(lambda task: task.tuned_latency_s),
    ),
    Column("Speed-up", lambda row: row.task.speedup, lambda ratio: f"{significant(ratio)}x", _total_speedup),
    Column(
        "Scored",
        lambda row: row.task.candidates_scored,
        total=lambda table: sum(row.task.candidates_scored for row in table),
    ),
    Column(
        "Measured",
        lambda row: row.task.candidates_measured,
        total=lambda table: sum(row.task.candidates_measured for row in table),
    ),
    Column(
        "Seconds",
        lambda row: row.task.search_s + row.task.measure_s,
        lambda seconds: f"{seconds:,.1f}",
        lambda table: sum(row.task.search_s + row.task.measure_s for row in table),
    ),
    Column("Share", lambda row: row.share, lambda share: f"{share:.1%}"),
)
"""The task table; the last line is for one run of the whole network, each task times its weight."""


def notes(result: TuneResult) -> list[str]:
    """What the table cannot say: tasks that were not tuned, and those that a database served."""
    untuned = [f"{task.name} was not tuned: {task.reason}" for task in result.tasks if task.reason]
    if result.simulated:
        untuned.insert(0, "A rehearsal: every latency here is made up, nothing was measured.")
    served = sum(task.from_database for task in result.tasks)
    if served:
        untuned.append(f"{served} of {len(result.tasks)} schedules came from a database, without a search.")
    return untuned
