"""Tuning curve of a report: estimated latency of the network over time."""

from __future__ import annotations

import math
from itertools import cycle

from matplotlib.axes import Axes

from ...figures import AFTER, BEFORE, HALF, INK, PEER, canvas, fragment, log_axis, shortened
from ...page import Plot
from ...wording import duration, milliseconds, times
from ..run.result import TuneResult


def curve_plot(result: TuneResult) -> Plot | None:
    """The tuning curve, with the curves of comparison runs; None if fewer than two points are finite."""
    known = _finite(result.curve)
    if len(known) < 2:
        return None
    elapsed, latency = zip(*known, strict=True)
    others = {run.name: points for run in result.comparison_runs if (points := _finite(run.curve))}
    last = max(elapsed[-1], *(points[-1][0] for points in others.values()), 0.0)
    start = min(elapsed[0], *(points[0][0] for points in others.values()), last)
    milli = [value * 1e3 for points in (known, *others.values()) for _, value in points]
    with canvas(HALF, 3.6) as figure:
        axes = figure.subplots()
        for (name, points), style in zip(others.items(), cycle(("-", "--", ":")), strict=False):
            _steps(axes, points, last, colour=BEFORE, label=name, style=style)
        _steps(axes, known, last, colour=AFTER, label="this run", style="-")
        axes.plot(elapsed[-1], latency[-1] * 1e3, "o", color=AFTER, markersize=8)
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
        return Plot("Tuning curve", caption, (fragment(figure, "curve", caption),))


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
    return f"; this run reached that after {duration(reached)} ({times(end[0] / reached)} less time)"
