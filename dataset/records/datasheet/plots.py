"""Plots of a datasheet's page."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from ....figures import AFTER, BAD, BEFORE, GRID, INK, MUTED, PEER, canvas, fragment, log_axis
from ....page import Plot, significant
from .overview import Overview

_WIDE, _HALF = 15.0, 7.3  # inches, 72 of the page's pixels each
_BINS = 30
_COLUMNS = 4
_MAX_POINTS = 2000


def plots(overview: Overview) -> list[Plot]:
    """All plots that the dataset has data for."""
    # Adjacent plots have similar heights, as two share a row, except for the wide one.
    order = (_operators, _latencies, _scores, _records, _rates, _failures, _probe)
    drawn = (draw(overview) for draw in order)
    return [plot for plot in drawn if plot is not None]


def _operators(overview: Overview) -> Plot:
    counts = overview.tasks.operator.value_counts()
    with canvas(_HALF, _height(len(counts))) as figure:
        axes = figure.subplots()
        _bars(axes, counts)
        axes.set_xlabel("tasks")
        caption = f"{len(overview.tasks):,} tasks of {len(counts)} operators."
        return Plot("Tasks by operator", caption, fragment(figure, "operators", caption))


def _records(overview: Overview) -> Plot | None:
    measured = overview.tasks[overview.tasks.records > 0].sort_values("records", ascending=False)
    if measured.empty:
        return None
    position = np.arange(1, len(measured) + 1)
    failed = measured.records - measured.valid
    with canvas(_HALF, 4.6) as figure:
        axes = figure.subplots()
        axes.stackplot(
            position, measured.valid, failed, step="mid", labels=("valid", "failed"), colors=(AFTER, BAD)
        )
        axes.set_xlim(0.5, len(measured) + 0.5)
        axes.set_ylim(0, 1.08 * measured.records.max())
        axes.set_xlabel("task, sorted by its number of records")
        axes.set_ylabel("records")
        axes.grid(axis="y")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0)
        caption = (
            f"{len(measured):,} tasks have records, half of them at least {measured.records.median():,.0f}; "
            f"{len(overview.tasks) - len(measured):,} have none."
        )
        return Plot("Records by task", caption, fragment(figure, "records", caption))


def _scores(overview: Overview) -> Plot | None:
    valid = overview.valid
    if valid.empty:
        return None
    operators = _measured_operators(overview)
    rows = math.ceil(len(operators) / _COLUMNS)
    with canvas(_WIDE, 0.5 + 2.1 * rows) as figure:
        grid = list(figure.subplots(rows, _COLUMNS, sharex=True, squeeze=False).flat)
        for axes, operator in zip(grid, operators, strict=False):
            scores = valid.score[valid.operator == operator]
            axes.hist(scores, bins=_BINS, range=(0, 1), color=AFTER)
            axes.axvline(scores.median(), color=PEER, linewidth=1.6)
            axes.set_title(f"{operator} ({len(scores):,})", fontsize=12, color=INK, loc="left")
            axes.set_yticks([])
        for axes in grid[len(operators) :]:
            axes.set_visible(False)
        for axes in grid[: len(operators)][-_COLUMNS:]:  # the lowest plot of each column
            axes.tick_params(labelbottom=True)
            axes.set_xlabel("score")
        caption = (
            "Best latency of the task over the record's, for each operator, with the median as a line. "
            "A score of 1 is the best program of its task."
        )
        return Plot("Scores by operator", caption, fragment(figure, "scores", caption), wide=True)


def _latencies(overview: Overview) -> Plot | None:
    valid = overview.valid
    if valid.empty:
        return None
    milli = valid.latency_s.groupby(valid.operator).quantile([0, 0.25, 0.5, 0.75, 1]).unstack() * 1e3
    milli = milli.loc[_measured_operators(overview)]
    position = np.arange(len(milli))
    with canvas(_HALF, _height(len(milli))) as figure:
        axes = figure.subplots()
        axes.hlines(position, milli[0], milli[1], color=GRID, linewidth=3)
        axes.hlines(position, milli[0.25], milli[0.75], color=AFTER, linewidth=9)
        axes.scatter(milli[0.5], position, color=PEER, s=40, zorder=3)
        log_axis(axes, "x")
        axes.set_xlabel("latency, ms (log)")
        _name_rows(axes, milli.index)
        caption = "Minimum to maximum latency, with the middle half as a bar and the median as a dot."
        return Plot("Latencies by operator", caption, fragment(figure, "latencies", caption))


def _rates(overview: Overview) -> Plot | None:
    rates = overview.tasks.gflops[overview.tasks.gflops > 0]
    if rates.empty:
        return None
    peaks = sorted({hardware.peak_gflops for hardware in overview.hardware.values()})
    with canvas(_HALF, 4.6) as figure:
        axes = figure.subplots()
        low, high = rates.min(), max(rates.max(), *peaks, 1.01 * rates.min())
        axes.hist(rates, bins=np.geomspace(low, high, _BINS + 1).tolist(), color=AFTER)
        for peak in peaks:
            axes.axvline(peak, color=PEER, linewidth=1.6, linestyle=(0, (4, 3)))
        log_axis(axes, "x")
        axes.set_xlabel("GFLOP/s of a task's best program (log)")
        axes.set_ylabel("tasks")
        axes.grid(axis="y")
        shown = " and ".join(significant(peak) for peak in peaks)
        caption = f"Median {significant(rates.median())} GFLOP/s" + (
            f"; a dashed line marks the peak of each device, {shown}." if peaks else "."
        )
        return Plot("Rates of the best programs", caption, fragment(figure, "rates", caption))


def _failures(overview: Overview) -> Plot | None:
    counts = overview.records.failure.value_counts()
    if counts.empty:
        return None
    with canvas(_HALF, _height(len(counts))) as figure:
        axes = figure.subplots()
        _bars(axes, counts, BAD)
        axes.set_xlabel("records")
        caption = f"{counts.sum():,} of {len(overview.records):,} records are failures, by cause."
        return Plot("Failures", caption, fragment(figure, "failures", caption))


def _probe(overview: Overview) -> Plot | None:
    probed = overview.records.dropna(subset="probe_ratio").sort_values("timestamp")
    if len(probed) < 2:
        return None
    shown = probed.iloc[:: math.ceil(len(probed) / _MAX_POINTS)]
    hours = (shown.timestamp - probed.timestamp.iloc[0]) / 3600
    with canvas(_HALF, 4.6) as figure:
        axes = figure.subplots()
        for disturbed, colour, label in ((False, AFTER, "quiet"), (True, BAD, "disturbed")):
            chosen = shown.disturbed == disturbed
            if chosen.any():
                axes.scatter(
                    hours[chosen],
                    shown.probe_ratio[chosen],
                    s=12,
                    color=colour,
                    alpha=0.5,
                    linewidths=0,
                    label=label,
                )
        axes.axhline(1.0, color=MUTED, linewidth=1)
        axes.set_xlabel("hours since the first record")
        axes.set_ylabel("probe latency over quiet latency")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0)
        caption = (
            "Latency of a fixed program around each batch over its latency on the quiet device"
            + ("" if len(shown) == len(probed) else f"; {len(shown):,} of {len(probed):,} records are drawn")
            + f". {probed.disturbed.sum():,} records are marked as disturbed."
        )
        return Plot("Noise of the machine", caption, fragment(figure, "probe", caption))


def _measured_operators(overview: Overview) -> list[str]:
    """Operators with a valid record, sorted by their number of tasks."""
    measured = set(overview.valid.operator)
    return [name for name in overview.tasks.operator.value_counts().index if name in measured]


def _bars(axes: Any, counts: pd.Series, colour: str = BEFORE) -> None:
    axes.barh(np.arange(len(counts)), counts, height=0.55, color=colour)
    for position, count in enumerate(counts):
        axes.annotate(
            f"{count:,}", (count, position), (5, 0), textcoords="offset points", va="center", color=INK
        )
    axes.set_xlim(0, 1.18 * counts.max())
    _name_rows(axes, counts.index)


def _name_rows(axes: Any, names: Any) -> None:
    """Label the rows of a plot, starting at the top."""
    axes.set_yticks(np.arange(len(names)), list(names))
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", labelcolor=INK)


def _height(rows: int) -> float:
    return 1.1 + 0.32 * rows
