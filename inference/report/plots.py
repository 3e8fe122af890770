"""Plots of a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes

from ...figures import (
    AFTER,
    BAD,
    BEFORE,
    GRID,
    HALF,
    INK,
    PEER,
    bars,
    canvas,
    fragment,
    log_axis,
    name_rows,
    shortened,
)
from ...page import Plot
from ...wording import counted, duration, milliseconds, part_of, times
from ..run.result import TUNED, UNTUNED, TuneResult
from .contestants import ordered
from .core_plot import cores_plot
from .libraries import MARKS, library_points
from .table import Row, rows

MAX_TASKS = 40
"""Most tasks in the task plot, which shows the tasks with the largest share of time."""

_COLOURS = {TUNED: AFTER, UNTUNED: BEFORE}


Drawn: TypeAlias = dict[Callable[[TuneResult], Plot | None], Plot | None]
"""Plots by the function that draws them; None if the result lacks data for a plot."""


def plots(result: TuneResult, drawn: Drawn | None = None) -> list[Plot]:
    """Every plot with data in the result; plots in `drawn` are not drawn again."""
    drawn = drawn or {}
    found = (drawn[draw] if draw in drawn else draw(result) for draw in _plots())
    return [plot for plot in found if plot is not None]


def drawn_early(result: TuneResult) -> Drawn:
    """Plots that do not depend on the length of the run."""
    return {draw: draw(result) for draw in _plots() if draw not in (_stages, cores_plot)}


def _plots() -> tuple[Callable[[TuneResult], Plot | None], ...]:
    return (_latencies, curve_plot, _tasks, _stages, cores_plot, _work, _scores)


def _tasks(result: TuneResult) -> Plot | None:
    known = [row for row in rows(result) if row.share is not None]
    if not known:
        return None
    shown = known[:MAX_TASKS]
    first = 100 * (shown[0].share or 0.0)
    caption = (
        f"{part_of(len(shown), len(result.tasks), 'task')}, by share of time. "
        f"The first, {shown[0].task.name}, takes {first:.1f}% of the time spent in tasks."
    )
    panels = (_task_latencies(shown, caption), _task_shares(shown, caption))
    return Plot("Tasks before and after tuning", caption, panels, wide=True)


def _task_latencies(shown: Sequence[Row], caption: str) -> str:
    with canvas(HALF, 1.0 + 0.27 * len(shown)) as figure:
        axes = figure.subplots()
        for y, task in enumerate(row.task for row in shown):
            if task.untuned_latency_s is not None and task.tuned_latency_s is not None:
                ends = 1e3 * task.tuned_latency_s, 1e3 * task.untuned_latency_s
                axes.hlines(y, *ends, color=GRID, linewidth=5, zorder=1)
        for colour, label, values in (
            (BEFORE, "untuned", [row.task.untuned_latency_s for row in shown]),
            (AFTER, "tuned", [row.task.tuned_latency_s for row in shown]),
        ):
            points = [(value * 1e3, y) for y, value in enumerate(values) if value is not None]
            if points:
                x, lines = zip(*points, strict=True)
                axes.scatter(x, lines, s=46, color=colour, label=label, zorder=2)
        log_axis(axes, "x")
        axes.set_xlabel("latency of one call, ms (log)")
        name_rows(axes, [row.task.name for row in shown])
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0)
        return fragment(figure, "tasks", caption)


def _task_shares(shown: Sequence[Row], caption: str) -> str:
    shares = [100 * (row.share or 0.0) for row in shown]
    colours = [BEFORE if row.task.tuned_latency_s is None else AFTER for row in shown]
    with canvas(HALF, 1.0 + 0.27 * len(shown)) as figure:
        axes = figure.subplots()
        names = [row.task.name for row in shown]
        bars(axes, names, shares, [f"{share:.1f}%" for share in shares], colours)
        axes.set_xlabel("share of the network's time, %")
        return fragment(figure, "shares", caption)


def _latencies(result: TuneResult) -> Plot | None:
    shown = [(one, one.median_s) for one in ordered(result) if one.median_s is not None]
    if not shown:
        return None
    with canvas(HALF, 1.2 + 0.6 * len(shown)) as figure:
        axes = figure.subplots()
        everything = [sample * 1e3 for one, median_s in shown for sample in [*one.samples_s, median_s]]
        for y, (one, median_s) in enumerate(shown):
            colour = _COLOURS.get(one.name, PEER)
            samples = np.asarray(one.samples_s) * 1e3
            # A fixed zigzag separates overlapping samples.
            offsets = 0.14 * ((np.arange(len(samples)) % 5) / 2 - 1)
            axes.scatter(samples, y + offsets, s=24, color=colour, alpha=0.55, linewidths=0)
            axes.vlines(median_s * 1e3, y - 0.28, y + 0.28, color=colour, linewidth=3)
            axes.annotate(
                milliseconds(median_s),
                (median_s * 1e3, y - 0.3),
                (0, 3),
                textcoords="offset points",
                ha="center",
                color=INK,
            )
        if max(everything) > 10 * min(everything):
            log_axis(axes, "x")
            axes.set_xlabel("latency of one run, ms (log)")
        else:
            axes.set_xlim(0, 1.15 * max(everything))
            axes.set_xlabel("latency of one run, ms")
        marks = [f"{one.name} (disturbed)" if one.disturbed else one.name for one, _ in shown]
        name_rows(axes, marks)
        medians = "; ".join(
            f"{mark} {milliseconds(median_s)}" for mark, (_, median_s) in zip(marks, shown, strict=True)
        )
        caption = f"Each dot is one turn of the whole network; a line marks the median: {medians}."
        return Plot("Latency of the network", caption, (fragment(figure, "latency", caption),))


def _stages(result: TuneResult) -> Plot | None:
    stages = dict(result.stage_s)
    rest = result.total_s - sum(stages.values())
    if rest > 0.005 * result.total_s:
        stages["other"] = rest
    if not stages or result.total_s <= 0:
        return None
    longest = max(stages, key=lambda stage: stages[stage])
    share = stages[longest] / result.total_s
    caption = f"The run took {duration(result.total_s)}; its longest stage was {longest} ({share:.0%})."
    return Plot("Wall time by stage", caption, (_time_bars(stages, result.total_s, "stages", caption),))


def _work(result: TuneResult) -> Plot | None:
    total = sum(result.profile_s.values())
    if total <= 0:
        return None
    caption = f"Search and measurement, summed over all processes, which run in parallel: {duration(total)}."
    return Plot("Work by step", caption, (_time_bars(result.profile_s, total, "work", caption),))


def _time_bars(seconds: dict[str, float], total: float, name: str, caption: str) -> str:
    """SVG with a bar for each entry, labelled with its share of `total`."""
    with canvas(HALF, 1.0 + 0.36 * len(seconds)) as figure:
        axes = figure.subplots()
        labels = [f"{duration(value)} ({value / total:.0%})" for value in seconds.values()]
        bars(axes, list(seconds), list(seconds.values()), labels)
        axes.set_xlabel("seconds")
        return fragment(figure, name, caption)


def rank_correlation(result: TuneResult) -> float | None:
    """Spearman correlation of predicted and measured scores within a task, averaged over tasks.

    Tasks with fewer than three candidates, or with equal scores, do not count. None if no task counts.
    """
    from ...models.metrics.task_metrics import spearman  # SciPy's statistics take a second to import

    correlations = [
        spearman(np.asarray(task.predicted_scores), np.asarray(task.measured_scores))
        for task in result.tasks
        if len(task.predicted_scores) >= 3
    ]
    known = [correlation for correlation in correlations if not math.isnan(correlation)]
    return sum(known) / len(known) if known else None


def _scores(result: TuneResult) -> Plot | None:
    pairs = [
        pair
        for task in result.tasks
        for pair in zip(task.predicted_scores, task.measured_scores, strict=True)
        if math.isfinite(pair[0])
    ]
    if not pairs:
        return None
    ran = [(predicted, measured) for predicted, measured in pairs if measured > 0]
    failed = [(predicted, measured) for predicted, measured in pairs if measured == 0]
    with canvas(HALF, 3.6) as figure:
        axes = figure.subplots()
        for points, marker, colour, label in ((ran, "o", AFTER, "ran"), (failed, "X", BAD, "failed")):
            if points:
                x, y = zip(*points, strict=True)
                axes.scatter(x, y, s=26, marker=marker, color=colour, alpha=0.5, linewidths=0, label=label)
        axes.set_xlabel("predicted score")
        axes.set_ylabel("measured score")
        axes.set_ylim(-0.05, 1.05)
        if failed:
            axes.legend(loc="upper left", bbox_to_anchor=(0, 1.12), ncols=2, borderaxespad=0)
        correlation = rank_correlation(result)
        caption = (
            f"{counted(len(pairs), 'measured candidate')} of all tasks. A measured score is the task's best "
            "measured latency over the candidate's. Spearman correlation within a task, averaged over tasks: "
            f"{'not defined' if correlation is None else f'{correlation:.2f}'}."
        )
        return Plot("Predicted and measured scores", caption, (fragment(figure, "scores", caption),))


def curve_plot(result: TuneResult) -> Plot | None:
    """The tuning curve, with the curves of comparison runs; None if fewer than two points are finite."""
    known = _finite(result.curve)
    if len(known) < 2:
        return None
    elapsed, latency = zip(*known, strict=True)
    others = {run.name: points for run in result.comparison_runs if (points := _finite(run.curve))}
    last = max(elapsed[-1], *(points[-1][0] for points in others.values()), 0.0)
    libraries = library_points(result)
    start = min(elapsed[0], *(points[0][0] for points in (*others.values(), libraries) if points), last)
    milli = [value * 1e3 for points in (known, *others.values(), libraries) for _, value in points]
    with canvas(HALF, 3.6) as figure:
        axes = figure.subplots()
        for (name, points), style in zip(others.items(), cycle(("-", "--", ":")), strict=False):
            _steps(axes, points, last, colour=BEFORE, label=name, style=style)
        _steps(axes, known, last, colour=AFTER, label="this run", style="-")
        axes.plot(elapsed[-1], latency[-1] * 1e3, "o", color=AFTER, markersize=8)
        axes.plot(*_in_milliseconds(libraries), "^", color=INK, markersize=8, zorder=3)
        # Next to a run that lasted 30 times as long, this curve would be a few pixels wide.
        if last > 8 * elapsed[-1] and start > 0:
            log_axis(axes, "x")
        else:
            margin = 0.02 * (last - start) or 0.5
            axes.set_xlim(start - margin, last + margin)
        rival = result.best_rival()
        if rival is not None and rival.median_s is not None:
            axes.axhline(rival.median_s * 1e3, color=PEER, linewidth=1.6, linestyle=(0, (4, 3)))
            axes.annotate(
                shortened(rival.name),
                (0, rival.median_s * 1e3),
                (4, 4),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                color=INK,
            )
            milli.append(rival.median_s * 1e3)
        if max(milli) > 5 * min(milli):
            log_axis(axes, "y")
        else:
            axes.set_ylim(0, 1.1 * max(milli))
        axes.set_xlabel("seconds since the start")
        axes.set_ylabel("estimated latency, ms")
        if others:
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0)
        caption = (
            "Sum over tasks of weight times best latency so far, from the first measured task on: "
            f"from {milliseconds(latency[0])} to {milliseconds(latency[-1])} after {duration(elapsed[-1])}."
        )
        for name, points in others.items():
            caption += (
                f" {name} reached {milliseconds(points[-1][1])} after {duration(points[-1][0])}"
                f"{_overtaken(known, points[-1])}."
            )
        caption += f" {MARKS}" if libraries else ""
        return Plot("Tuning curve", caption, (fragment(figure, "curve", caption),))


def _in_milliseconds(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Seconds since the start, and latencies in milliseconds."""
    return [after_s for after_s, _ in points], [latency_s * 1e3 for _, latency_s in points]


def _finite(curve: list[tuple[float, float]]) -> list[tuple[float, float]]:
    return [point for point in curve if math.isfinite(point[1])]


def _steps(
    axes: Axes, points: list[tuple[float, float]], last_s: float, *, colour: str, label: str, style: str
) -> None:
    """Draws a curve of points (seconds, seconds) as steps in milliseconds, extended to `last_s`."""
    drawn = [*points, (last_s, points[-1][1])]
    elapsed, latency = zip(*drawn, strict=True)
    milli = [value * 1e3 for value in latency]
    axes.step(
        elapsed,
        milli,
        where="post",
        color=colour,
        linewidth=2.2,
        linestyle=style,
        label=shortened(label),
        zorder=2,
    )


def _overtaken(ours: list[tuple[float, float]], end: tuple[float, float]) -> str:
    """Sentence about when our curve reached the end point of another; empty if it never did."""
    reached = next((elapsed for elapsed, latency in ours if latency <= end[1]), None)
    if reached is None:
        return ""
    if reached <= 0:
        return "; this run started there"
    less = f" ({times(end[0] / reached)} less time)" if reached < end[0] else ""
    return f"; this run reached that after {duration(reached)}{less}"
