"""The task table of a report, shared by the terminal and the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...page import significant
from ..run.result import TaskResult, TuneResult, by_tasks_s

MISSING = "-"
WHOLE_NETWORK = "one run of the network"
"""Name of the last line of the task table."""


@dataclass(frozen=True)
class Row:
    """A task with its share of the network's time, in [0, 1]; None if no latency is known."""

    task: TaskResult
    share: float | None
    peak_gflops: float | None = None
    """Float32 peak of the cores in 10^9 operations a second, None where it is not known."""

    @property
    def of_peak(self) -> float | None:
        """Share of the cores' peak that the task reaches, None if latency or peak is not known."""
        return _share_of_peak([self])

    @property
    def lost_s(self) -> float | None:
        """Seconds of a run of the network over those that the task would take at the cores' peak."""
        if self.task.network_s is None or self.peak_gflops is None:
            return None
        return self.task.network_s - self.task.weight * self.task.flops / (self.peak_gflops * 1e9)


@dataclass(frozen=True)
class Column:
    """A column of the task table."""

    title: str
    value: Callable[[Row], str | float | None]
    """Content of a cell: text, or the number to sort by."""
    show: Callable[[float], str] = lambda number: f"{number:,.0f}"
    total: Callable[[list[Row]], float | None] | None = None
    """Aggregate over all rows for the last line of the table; None for a column without one."""

    def cell(self, row: Row) -> str:
        return self._text(self.value(row))

    def footer(self, rows: list[Row]) -> str:
        return "" if self.total is None else self._text(self.total(rows))

    def _text(self, value: str | float | None) -> str:
        if value is None:
            return MISSING
        return value if isinstance(value, str) else self.show(value)


def rows(result: TuneResult) -> list[Row]:
    """Rows of the tasks, those with the largest share of the network's time first."""
    pairs = [
        Row(task, share, result.peak_gflops)
        for task, share in zip(result.tasks, result.shares(), strict=True)
    ]
    return sorted(pairs, key=lambda row: -1.0 if row.share is None else row.share, reverse=True)


def _milli(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _network_total(latency: Callable[[TaskResult], float | None]) -> Callable[[list[Row]], float | None]:
    """`by_tasks_s` in milliseconds, as the total of a column."""

    def total(table: list[Row]) -> float | None:
        return _milli(by_tasks_s([row.task for row in table], latency))

    return total


def _share_of_peak(table: list[Row]) -> float | None:
    """Operations of all rows over the seconds of a run and over the peak, None unless all are known."""
    seconds = by_tasks_s([row.task for row in table], lambda task: task.latency_s)
    if not seconds or not table or (peak := table[0].peak_gflops) is None:
        return None
    return sum(row.task.weight * row.task.flops for row in table) / seconds / (peak * 1e9)


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
        "Tuning s",
        lambda row: row.task.search_s + row.task.measure_s,
        lambda seconds: f"{seconds:,.1f}",
        lambda table: sum(row.task.search_s + row.task.measure_s for row in table),
    ),
    Column("Of peak", lambda row: row.of_peak, lambda share: f"{share:.0%}", _share_of_peak),
    Column("Share", lambda row: row.share, lambda share: f"{share:.1%}"),
)
"""Columns of the task table; totals count each task times its weight."""
