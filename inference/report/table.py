"""The task table of a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...page import Column, Table
from ...wording import MISSING, significant, times
from ..run.result import TaskResult, TuneResult, by_tasks_s

_ABOVE_PEAK = 1.05
"""Rate over the measured peak that is still credible, as both are measured."""


@dataclass(frozen=True)
class Row:
    """A task with its share of the network's time, in [0, 1]; None if no latency is known."""

    task: TaskResult
    share: float | None
    peak_gflops: float | None = None
    """Float32 peak of the cores in 10^9 operations a second, or None."""

    @property
    def of_peak(self) -> float | None:
        """Share of the cores' peak that the task reaches; None if latency or peak is unknown."""
        return _share_of_peak([self])

    @property
    def lost_s(self) -> float | None:
        """Seconds that a run of the network spends in the task beyond its time at the cores' peak."""
        if self.task.network_s is None or self.peak_gflops is None:
            return None
        return self.task.network_s - self.task.weight * self.task.flops / (self.peak_gflops * 1e9)


@dataclass(frozen=True)
class _Quantity:
    """A number for each task; `total` is the number for the network."""

    column: Column
    value: Callable[[Row], float | None]
    show: Callable[[float], str]
    total: Callable[[Sequence[Row]], float | None] = lambda _: None

    def text(self, value: float | None) -> str:
        return MISSING if value is None else self.show(value)


def tasks_above_peak(result: TuneResult) -> int:
    """Number of tasks of a float32 network that run faster than the measured peak of the cores allows.

    The peak cannot be right if there are any: other work disturbed its measurement.
    """
    if result.peak_gflops is None or result.agreement is not None:
        return 0
    limit = _ABOVE_PEAK * result.peak_gflops * 1e9
    return sum(task.latency_s is not None and task.flops > limit * task.latency_s for task in result.tasks)


def credible_peak_gflops(result: TuneResult) -> float | None:
    """Measured float32 peak of the cores in 10^9 operations a second; None if unknown or disturbed."""
    return None if tasks_above_peak(result) else result.peak_gflops


def rows(result: TuneResult) -> list[Row]:
    """Rows of the tasks, in descending order of their share of the network's time."""
    peak_gflops = credible_peak_gflops(result)
    pairs = [Row(task, share, peak_gflops) for task, share in zip(result.tasks, result.shares(), strict=True)]
    return sorted(pairs, key=lambda row: -1.0 if row.share is None else row.share, reverse=True)


def tasks_table(result: TuneResult, remarks: Sequence[str] = ()) -> Table:
    """A row for each task; the last line is one run of the network, with each task times its weight."""
    table = rows(result)
    note = (
        "Latencies are of one call. The last line is one run of the network: each task times its weight. "
        "Share is the task's part of the time spent in all tasks."
    )
    if credible_peak_gflops(result) is not None:
        note += (
            " Of peak is the part of the cores' measured float32 peak that the task reaches; a task that "
            "waits for memory reaches little of it."
        )
    return Table(
        "Tasks",
        [Column("Task", text=True), *(one.column for one in _QUANTITIES)],
        [[row.task.name, *(one.text(one.value(row)) for one in _QUANTITIES)] for row in table],
        note,
        total=["one run of the network", *(one.text(one.total(table)) for one in _QUANTITIES[:-1]), ""],
        remarks=remarks,
        keys=[[row.task.name, *(one.value(row) for one in _QUANTITIES)] for row in table],
    )


def _milli(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _sum(value: Callable[[TaskResult], float]) -> Callable[[Sequence[Row]], float]:
    return lambda table: sum(value(row.task) for row in table)


def _network_ms(latency: Callable[[TaskResult], float | None]) -> Callable[[Sequence[Row]], float | None]:
    """`by_tasks_s` in milliseconds, as the total of a column."""
    return lambda table: _milli(by_tasks_s([row.task for row in table], latency))


def _share_of_peak(table: Sequence[Row]) -> float | None:
    """Operations of all rows over the seconds of a run and over the peak; None unless all are known."""
    seconds = by_tasks_s([row.task for row in table], lambda task: task.latency_s)
    if not seconds or not table or (peak := table[0].peak_gflops) is None:
        return None
    return sum(row.task.weight * row.task.flops for row in table) / seconds / (peak * 1e9)


def _speedup(table: Sequence[Row]) -> float | None:
    before = _network_ms(lambda task: task.untuned_latency_s)(table)
    after = _network_ms(lambda task: task.tuned_latency_s)(table)
    return None if before is None or after is None else before / after


def _count(number: float) -> str:
    return f"{number:,.0f}"


_QUANTITIES = (
    _Quantity(Column("Weight", drop=5), lambda row: row.task.weight, _count, _sum(lambda task: task.weight)),
    _Quantity(
        Column("GFLOP", drop=2),
        lambda row: row.task.flops / 1e9,
        significant,
        _sum(lambda task: task.weight * task.flops / 1e9),
    ),
    _Quantity(
        Column("Untuned ms", drop=6),
        lambda row: _milli(row.task.untuned_latency_s),
        significant,
        _network_ms(lambda task: task.untuned_latency_s),
    ),
    _Quantity(
        Column("Tuned ms"),
        lambda row: _milli(row.task.tuned_latency_s),
        significant,
        _network_ms(lambda task: task.tuned_latency_s),
    ),
    _Quantity(Column("Speed-up"), lambda row: row.task.speedup, times, _speedup),
    _Quantity(
        Column("Scored", drop=1),
        lambda row: row.task.candidates_scored,
        _count,
        _sum(lambda task: task.candidates_scored),
    ),
    _Quantity(
        Column("Measured", drop=4),
        lambda row: row.task.candidates_measured,
        _count,
        _sum(lambda task: task.candidates_measured),
    ),
    _Quantity(
        Column("Tuning s"),
        lambda row: row.task.search_s + row.task.measure_s,
        lambda seconds: f"{seconds:,.1f}",
        _sum(lambda task: task.search_s + task.measure_s),
    ),
    _Quantity(
        Column("Of peak", drop=3, optional=True),
        lambda row: row.of_peak,
        lambda share: f"{share:.0%}",
        _share_of_peak,
    ),
    _Quantity(Column("Share"), lambda row: row.share, lambda share: f"{share:.1%}"),
)
