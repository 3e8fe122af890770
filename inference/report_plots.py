"""The plots of a tuning run's page."""

from __future__ import annotations

import math
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes

from ..figures import AFTER, BAD, BEFORE, GRID, INK, MUTED, PEER, canvas, fragment, log_axis
from ..page import Plot
from .report_content import duration, milliseconds, rank_correlation, rows
from .tune_result import EAGER, TUNED, UNTUNED, TuneResult

MAX_TASKS = 40
"""The task plot shows at most so many, the ones with the largest share of time."""

_COLOURS = {TUNED: AFTER, UNTUNED: BEFORE, EAGER: PEER}

_WIDE, _HALF = 15.0, 7.3  # inches, 72 of the page's pixels each


def plots(result: TuneResult) -> list[Plot]:
    """Every plot that the result holds data for."""
    drawn = (draw(result) for draw in (_tasks, _curve, _latencies, _stages, _work, _scores))
    return [plot for plot in drawn if plot is not None]


def _tasks(result: TuneResult) -> Plot | None:
    known = [row for row in rows(result) if row.share is not None]
    if not known:
        return None
    shown = known[:MAX_TASKS]
    position = np.arange(len(shown))
    with canvas(_WIDE, 1.0 + 0.29 * len(shown)) as figure:
        latency, share = figure.subplots(1, 2, sharey=True, width_ratios=[3, 1])
        both = [
            (y, row.task.untuned_latency_s * 1e3, row.task.tuned_latency_s * 1e3)
            for y, row in zip(position, shown, strict=True)
            if row.task.untuned_latency_s is not None and row.task.tuned_latency_s is not None
        ]
        if both:
            lines, before, after = zip(*both, strict=True)
            latency.hlines(lines, after, before, color=GRID, linewidth=5, zorder=1)
        for colour, label, values in (
            (BEFORE, "untuned", [row.task.untuned_latency_s for row in shown]),
            (AFTER, "tuned", [row.task.tuned_latency_s for row in shown]),
        ):
            points = [
                (value * 1e3, y) for y, value in zip(position, values, strict=True) if value is not None
            ]
            if points:
                latency.scatter(*zip(*points, strict=True), s=46, color=colour, label=label, zorder=2)
        log_axis(latency, "x")
        latency.set_xlabel("latency of one call, ms (log)")
        latency.set_yticks(position, [_shorten(row.task.name) for row in shown])
        latency.set_ylim(len(shown) - 0.4, -0.6)
        latency.tick_params(axis="y", labelcolor=INK)
        latency.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0)

        shares = [100 * (row.share or 0.0) for row in shown]
        colours = [BEFORE if row.task.tuned_latency_s is None else AFTER for row in shown]
        share.barh(position, shares, height=0.55, color=colours)
        for y, percent in zip(position, shares, strict=True):
            share.annotate(
                f"{percent:.1f}%", (percent, y), (5, 0), textcoords="offset points", va="center", color=INK
            )
        share.set_xlim(0, 1.22 * max(shares))
        share.set_xlabel("share of the network's time, %")
        share.tick_params(axis="y", labelleft=False)
        caption = (
            f"{len(shown)} of {len(result.tasks)} tasks, by share of time. "
            f"The first, {shown[0].task.name}, takes {shares[0]:.1f}% of the time spent in tasks."
        )
        return Plot("Tasks before and after", caption, fragment(figure, "tasks", caption), wide=True)


def _latencies(result: TuneResult) -> Plot | None:
    if not result.latencies:
        return None
    with canvas(_HALF, 1.4 + 0.75 * len(result.latencies)) as figure:
        axes = figure.subplots()
        everything = [
            sample * 1e3 for stats in result.latencies for sample in [*stats.samples_s, stats.median_s]
        ]
        for y, stats in enumerate(result.latencies):
            colour = _COLOURS.get(stats.name, MUTED)
            samples = np.asarray(stats.samples_s) * 1e3
            # A fixed zigzag parts samples that would hide each other.
            offsets = 0.14 * ((np.arange(len(samples)) % 5) / 2 - 1)
            axes.scatter(samples, y + offsets, s=24, color=colour, alpha=0.55, linewidths=0)
            axes.vlines(stats.median_s * 1e3, y - 0.28, y + 0.28, color=colour, linewidth=3)
            axes.annotate(
                milliseconds(stats.median_s),
                (stats.median_s * 1e3, y - 0.3),
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
        axes.set_yticks(range(len(result.latencies)), [stats.name for stats in result.latencies])
        axes.set_ylim(len(result.latencies) - 0.5, -0.65)
        axes.tick_params(axis="y", labelcolor=INK)
        medians = "; ".join(f"{stats.name} {milliseconds(stats.median_s)}" for stats in result.latencies)
        caption = f"Every timed run of the whole network, with the median as a line: {medians}."
        return Plot("Latency of the network", caption, fragment(figure, "latency", caption))


def _stages(result: TuneResult) -> Plot | None:
    stages = dict(result.stage_s)
    rest = result.total_s - sum(stages.values())
    if rest > 0.005 * result.total_s:
        stages["other"] = rest
    if not stages or result.total_s <= 0:
        return None
    longest = max(stages, key=lambda stage: stages[stage])
    share = stages[longest] / result.total_s
    caption = f"The run took {duration(result.total_s)}, the largest part of it {longest} ({share:.0%})."
    return Plot("Where the time went", caption, _time_bars(stages, result.total_s, "stages", caption))


def _work(result: TuneResult) -> Plot | None:
    total = sum(result.profile_s.values())
    if total <= 0:
        return None
    caption = (
        f"Search and measurement step by step: {duration(total)} of work, added up over all processes, "
        "which work side by side."
    )
    return Plot("What the work was", caption, _time_bars(result.profile_s, total, "work", caption))


def _time_bars(seconds: dict[str, float], total: float, name: str, caption: str) -> str:
    """SVG of a bar for each entry, with its share of `total`."""
    with canvas(_HALF, 1.2 + 0.42 * len(seconds)) as figure:
        axes = figure.subplots()
        axes.barh(list(seconds), list(seconds.values()), height=0.55, color=AFTER)
        for y, value in enumerate(seconds.values()):
            axes.annotate(
                f"{duration(value)} ({value / total:.0%})",
                (value, y),
                (5, 0),
                textcoords="offset points",
                va="center",
                color=INK,
            )
        axes.set_xlim(0, 1.45 * max(seconds.values()))
        axes.set_ylim(len(seconds) - 0.4, -0.6)
        axes.set_xlabel("seconds")
        axes.tick_params(axis="y", labelcolor=INK)
        return fragment(figure, name, caption)


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
    with canvas(_HALF, 4.6) as figure:
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
            f"{len(pairs):,} validated candidates of all tasks. A measured score is the task's best measured "
            "latency over the candidate's. Spearman correlation within a task, averaged over tasks: "
            f"{'too few candidates to tell' if correlation is None else f'{correlation:.2f}'}."
        )
        return Plot("Predicted against measured", caption, fragment(figure, "scores", caption))


def _curve(result: TuneResult) -> Plot | None:
    known = _finite(result.curve)
    if len(known) < 2:
        return None
    elapsed, latency = zip(*known, strict=True)
    rivals = {rival.name: points for rival in result.rivals if (points := _finite(rival.curve))}
    last = max(elapsed[-1], *(points[-1][0] for points in rivals.values()), 0.0)
    milli = [value * 1e3 for points in (known, *rivals.values()) for _, value in points]
    with canvas(_WIDE, 4.6) as figure:
        axes = figure.subplots()
        for (name, points), style in zip(rivals.items(), cycle(("-", "--", ":")), strict=False):
            _steps(axes, points, last, colour=BEFORE, label=name, style=style)
        _steps(axes, known, last, colour=AFTER, label="this run", style="-")
        axes.plot(elapsed[-1], latency[-1] * 1e3, "o", color=AFTER, markersize=8)
        # A run that took 30 times as long would squeeze this one into the first millimetres.
        if last > 8 * elapsed[-1] and elapsed[0] > 0:
            log_axis(axes, "x")
        else:
            axes.set_xlim(0, last * 1.02 or 1)
        eager = result.latency(EAGER)
        if eager is not None:
            axes.axhline(eager.median_s * 1e3, color=PEER, linewidth=1.6, linestyle=(0, (4, 3)))
            axes.annotate(
                EAGER,
                (0, eager.median_s * 1e3),
                (4, 4),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                color=INK,
            )
            milli.append(eager.median_s * 1e3)
        if max(milli) > 5 * min(milli):
            log_axis(axes, "y")
        else:
            axes.set_ylim(0, 1.1 * max(milli))
        axes.set_xlabel("seconds since the start")
        axes.set_ylabel("estimated latency of the network, ms")
        if rivals:
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0)
        caption = (
            f"Weights times the best latencies so far, from {milliseconds(latency[0])} to "
            f"{milliseconds(latency[-1])} after {duration(elapsed[-1])}."
        )
        for name, points in rivals.items():
            caption += (
                f" {name} came to {milliseconds(points[-1][1])} after {duration(points[-1][0])}"
                f"{_overtaken(known, points[-1])}."
            )
        return Plot("Tuning curve", caption, fragment(figure, "curve", caption), wide=True)


def _finite(curve: list[tuple[float, float]]) -> list[tuple[float, float]]:
    return [point for point in curve if math.isfinite(point[1])]


def _steps(
    axes: Axes, points: list[tuple[float, float]], last_s: float, *, colour: str, label: str, style: str
) -> None:
    """A curve of (seconds, seconds) as steps in milliseconds, drawn out to `last_s`."""
    drawn = [*points, (last_s, points[-1][1])]
    elapsed, latency = zip(*drawn, strict=True)
    milli = [value * 1e3 for value in latency]
    axes.step(
        elapsed, milli, where="post", color=colour, linewidth=2.2, linestyle=style, label=label, zorder=2
    )


def _overtaken(ours: list[tuple[float, float]], rival_end: tuple[float, float]) -> str:
    """When our curve got to where a rival ended, empty where it never did."""
    reached = next((elapsed for elapsed, latency in ours if latency <= rival_end[1]), None)
    if reached is None:
        return ""
    if reached <= 0:
        return ", where this run began"
    return f", where this run was after {duration(reached)} ({rival_end[0] / reached:.3g}x less time)"


def _shorten(name: str, longest: int = 44) -> str:
    """The head and the tail of a long name: generated names tell tasks apart by both."""
    if len(name) <= longest:
        return name
    tail = (longest - 3) // 2
    return f"{name[: longest - 3 - tail]}...{name[-tail:]}"
