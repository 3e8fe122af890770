"""Plots of a datasheet."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from ....figures import (
    AFTER,
    BAD,
    BEFORE,
    GRID,
    HALF,
    INK,
    MUTED,
    PANEL,
    PEER,
    bars,
    canvas,
    fragment,
    log_axis,
    name_rows,
    shortened,
)
from ....page import Plot
from ....wording import capitalised, counted, listed, part_of, significant, verb
from .limits import too_low_peak
from .overview import Overview
from .peaks import device_peaks

_BINS = 30
_MAX_POINTS = 2000


def plots(overview: Overview) -> list[Plot]:
    """All plots that the dataset has data for."""
    # Adjacent plots have similar heights, as two share a row, except for the wide one.
    order = (_operators, _latencies, _scores, _records, _rates, _failures, _probe)
    drawn = (draw(overview) for draw in order)
    return [plot for plot in drawn if plot is not None]


def _operators(overview: Overview) -> Plot:
    counts = overview.tasks.operator.value_counts()
    with canvas(HALF, _height(len(counts))) as figure:
        axes = figure.subplots()
        _count_bars(axes, counts, BEFORE)
        axes.set_xlabel("tasks")
        caption = f"{counted(len(overview.tasks), 'task')} of {counted(len(counts), 'operator')}."
        return Plot("Tasks by operator", caption, (fragment(figure, "operators", caption),))


def _records(overview: Overview) -> Plot | None:
    measured = overview.tasks[overview.tasks.records > 0].sort_values("records", ascending=False)
    if measured.empty:
        return None
    position = np.arange(1, len(measured) + 1)
    failed = measured.records - measured.valid
    with canvas(HALF, 3.6) as figure:
        axes = figure.subplots()
        axes.stackplot(
            position, measured.valid, failed, step="mid", labels=("valid", "failed"), colors=(AFTER, BAD)
        )
        axes.set_xlim(0.5, len(measured) + 0.5)
        axes.set_ylim(0, 1.08 * measured.records.max())
        axes.set_xlabel("task, sorted by its number of records")
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        _count_axis(axes, "records")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0)
        without = len(overview.tasks) - len(measured)
        caption = (
            f"{counted(len(measured), 'task')} with records, half of them at least "
            f"{measured.records.median():,.0f}; {counted(without, 'task')} without."
        )
        return Plot("Records by task", caption, (fragment(figure, "records", caption),))


def _scores(overview: Overview) -> Plot | None:
    valid = overview.valid
    if valid.empty:
        return None
    caption = (
        "Best latency of the task over the record's, for each operator, with the median as a line. "
        "A score of 1 is the best program of its task."
    )
    panels = []
    for number, operator in enumerate(_measured_operators(overview)):
        scores = valid.score[valid.operator == operator]
        with canvas(PANEL, 2.1) as figure:
            axes = figure.subplots()
            axes.hist(scores, bins=_BINS, range=(0, 1), color=AFTER)
            axes.axvline(scores.median(), color=PEER, linewidth=1.6)
            axes.set_title(
                f"{shortened(operator)} ({counted(len(scores), 'record')})",
                fontsize=12,
                color=INK,
                loc="left",
            )
            axes.set_xlim(0, 1)
            axes.set_xticks(np.linspace(0, 1, 6))
            axes.set_xlabel("score")
            _count_axis(axes, "records")
            panels.append(fragment(figure, f"scores-{number}", f"{operator}: {caption}"))
    return Plot("Scores by operator", caption, tuple(panels), wide=True)


def _latencies(overview: Overview) -> Plot | None:
    valid = overview.valid
    if valid.empty:
        return None
    milli = valid.latency_s.groupby(valid.operator).quantile([0, 0.25, 0.5, 0.75, 1]).unstack() * 1e3
    milli = milli.loc[_measured_operators(overview)]
    position = np.arange(len(milli))
    with canvas(HALF, _height(len(milli))) as figure:
        axes = figure.subplots()
        axes.hlines(position, milli[0], milli[1], color=GRID, linewidth=3)
        axes.hlines(position, milli[0.25], milli[0.75], color=AFTER, linewidth=9)
        axes.scatter(milli[0.5], position, color=PEER, s=40, zorder=3)
        log_axis(axes, "x")
        axes.set_xlabel("latency, ms (log)")
        name_rows(axes, list(milli.index))
        caption = "Minimum to maximum latency, with the middle half as a bar and the median as a dot."
        return Plot("Latencies by operator", caption, (fragment(figure, "latencies", caption),))


def _rates(overview: Overview) -> Plot | None:
    rates = overview.tasks.gflops[overview.tasks.gflops > 0]
    if rates.empty:
        return None
    measured = device_peaks(overview)
    peaks = sorted({peak.gflops for peak in measured if not peak.too_low})
    with canvas(HALF, 3.6) as figure:
        axes = figure.subplots()
        low, high = rates.min(), max(rates.max(), *peaks, 1.01 * rates.min())
        axes.hist(rates, bins=np.geomspace(low, high, _BINS + 1).tolist(), color=AFTER)
        for peak in peaks:
            axes.axvline(peak, color=PEER, linewidth=1.6, linestyle=(0, (4, 3)))
        log_axis(axes, "x")
        axes.set_xlabel("GFLOP/s of a task's best program (log)")
        _count_axis(axes, "tasks")
        caption = f"Median {significant(rates.median())} GFLOP/s"
        if peaks:
            shown = listed([significant(peak) for peak in peaks])
            caption += (
                f"; {verb(len(peaks), 'a dashed line marks', 'dashed lines mark')} the float32 peak of "
            )
            caption += f"{verb(len(peaks), 'the device', 'the devices')}, {shown}"
        caption += "." + "".join(f" {too_low_peak(peak)}" for peak in measured if peak.too_low)
        return Plot("Rates of the best programs", caption, (fragment(figure, "rates", caption),))


def _failures(overview: Overview) -> Plot | None:
    counts = overview.records.failure.value_counts()
    if counts.empty:
        return None
    with canvas(HALF, _height(len(counts))) as figure:
        axes = figure.subplots()
        _count_bars(axes, counts, BAD)
        axes.set_xlabel("records")
        caption = f"Causes of failure of {part_of(counts.sum(), len(overview.records), 'record')}."
        return Plot("Failures", caption, (fragment(figure, "failures", caption),))


def _probe(overview: Overview) -> Plot | None:
    probed = overview.records.dropna(subset="probe_ratio").sort_values("timestamp")
    if len(probed) < 2:
        return None
    shown = probed.iloc[:: math.ceil(len(probed) / _MAX_POINTS)]
    hours = (shown.timestamp - probed.timestamp.iloc[0]) / 3600
    with canvas(HALF, 3.6) as figure:
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
        axes.legend(markerscale=2, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0)
        caption = (
            "Latency of a fixed program around each batch over its latency on the quiet device"
            + (
                ""
                if len(shown) == len(probed)
                else f"; {part_of(len(shown), len(probed), 'record')} {verb(len(shown), 'is', 'are')} drawn"
            )
            + f". {capitalised(part_of(probed.disturbed.sum(), len(probed), 'record'))} "
            + f"{verb(probed.disturbed.sum(), 'is', 'are')} marked as disturbed."
        )
        return Plot("Noise of the machine", caption, (fragment(figure, "probe", caption),))


def _measured_operators(overview: Overview) -> list[str]:
    """Operators with a valid record, sorted by their number of tasks."""
    measured = set(overview.valid.operator)
    return [name for name in overview.tasks.operator.value_counts().index if name in measured]


def _count_axis(axes: Any, what: str) -> None:
    """A vertical axis of whole numbers."""
    axes.set_ylabel(what)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.grid(axis="y")


def _count_bars(axes: Any, counts: pd.Series, colour: str) -> None:
    bars(axes, list(counts.index), counts.tolist(), [f"{count:,}" for count in counts], colour)


def _height(rows: int) -> float:
    return 0.9 + 0.27 * rows
