"""Plots of a comparison's page."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...figures import AFTER, BAD, BEFORE, GRID, INK, MUTED, PEER, canvas, fragment, log_axis
from ...page import Plot
from .learning_curve import AXES
from .result import CurvePoint, ModelComparison, row_of

_WIDE, _HALF = 15.0, 7.3  # inches, 72 of the page's pixels each
_COLUMNS = 4
_MAX_POINTS = 1500
_SERIES = (AFTER, PEER, BEFORE, BAD, INK, MUTED)
_DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)))
_MARKERS = "osD^vP"

BARS = {
    "spearman": "Spearman",
    "pairwise_accuracy": "pairwise accuracy",
    "top_1": "top-1 score",
    "top_5": "top-5 score",
}


def plots(comparison: ModelComparison) -> list[Plot]:
    """All plots that the comparison has data for."""
    drawn = [_bars(comparison), _scatter(comparison), _top_k(comparison), _network_bars(comparison)]
    drawn += [_operators(comparison, measure) for measure in ("spearman", "top_1")]
    drawn += [_curve(comparison, axis) for axis in AXES]
    return [plot for plot in drawn if plot is not None]


def _bars(comparison: ModelComparison) -> Plot:
    rows = comparison.rows()
    position = np.arange(len(rows))
    with canvas(_WIDE, 1.3 + 0.34 * len(rows)) as figure:
        grid = figure.subplots(1, len(BARS), sharey=True)
        for axes, (measure, title) in zip(grid, BARS.items(), strict=True):
            values = [row.means[measure] for row in rows]
            best = int(np.nanargmax(values))
            axes.barh(position, values, color=[AFTER if i == best else BEFORE for i in position], height=0.62)
            deviation = np.nan_to_num([row.deviations[measure] for row in rows])
            if deviation.any():
                axes.errorbar(values, position, xerr=deviation, fmt="none", ecolor=INK, elinewidth=1.2)
            for i, value in enumerate(values):
                axes.annotate(
                    f"{value:.3f}",
                    (max(value + deviation[i], 0), i),
                    (4, 0),
                    textcoords="offset points",
                    va="center",
                )
            axes.set_title(title, fontsize=12, color=INK, loc="left")
            axes.set_xlim(min(0, *values), 1.12)
        grid[0].set_yticks(position, [row.name for row in rows])
        grid[0].invert_yaxis()
        caption = "Means over the held-out tasks; the best model is coloured" + (
            ", lines show the deviation over the seeds." if any(row.seeds > 1 for row in rows) else "."
        )
        return Plot("Main metrics", caption, fragment(figure, "bars", caption), wide=True)


def _scatter(comparison: ModelComparison) -> Plot:
    names = comparison.names()
    tasks = comparison.tasks
    known = np.flatnonzero(~np.isnan(tasks.score))
    if len(known) > _MAX_POINTS:
        known = np.random.default_rng(0).choice(known, _MAX_POINTS, replace=False)
    columns = min(_COLUMNS, len(names))
    lines = math.ceil(len(names) / columns)
    with canvas(_WIDE, 0.4 + 3.6 * lines) as figure:
        grid = list(figure.subplots(lines, columns, squeeze=False, sharex=True).flat)
        for axes, name in zip(grid, names, strict=False):
            prediction = comparison.of(name)[0].prediction[known]
            axes.scatter(
                tasks.score[known], prediction, s=6, color=AFTER, alpha=0.35, linewidths=0, rasterized=False
            )
            axes.plot([0, 1], [0, 1], color=PEER, linewidth=1.4)
            # Models that only rank have a scale of their own.
            low, high = np.quantile(prediction, [0.005, 0.995])
            margin = 0.08 * (high - low or 1)
            axes.set_ylim(min(low, 0) - margin, max(high, 1) + margin)
            axes.set_title(name, fontsize=12, color=INK, loc="left")
            axes.grid(axis="y")
        for axes in grid[len(names) :]:
            axes.set_visible(False)
        for axes in grid[: len(names)][-columns:]:
            axes.tick_params(labelbottom=True)
            axes.set_xlabel("measured score")
        for axes in grid[::columns]:
            axes.set_ylabel("predicted score")
        caption = (
            f"{len(known):,} programs of the held-out tasks. A score of 1 is the fastest program of its "
            "task; the points of a perfect model are on the line."
        )
        return Plot("Predicted against measured", caption, fragment(figure, "scatter", caption), wide=True)


def _top_k(comparison: ModelComparison) -> Plot:
    """Best score among the first k programs in predicted order, which a tuner would measure."""
    tasks = comparison.tasks
    depth = 32
    groups = [np.flatnonzero(tasks.group == task.group) for task in comparison.entries[0].metrics.per_task]
    with canvas(_HALF, 4.9) as figure:
        axes = figure.subplots()
        for number, name in enumerate(comparison.names()):
            prediction = comparison.of(name)[0].prediction
            curves = []
            for rows in groups:
                order = np.lexsort((tasks.score[rows], -prediction[rows]))
                best = np.maximum.accumulate(tasks.score[rows][order])
                curves.append(np.pad(best[:depth], (0, max(depth - len(best), 0)), mode="edge"))
            axes.plot(np.arange(1, depth + 1), np.mean(curves, axis=0), label=name, **_line(number))
        axes.set_xlabel("programs measured per task, in predicted order (log)")
        axes.set_ylabel("mean top-k score")
        axes.set_ylim(top=1.005)
        log_axis(axes, "x")
        axes.grid(axis="y")
        axes.legend(loc="lower right", fontsize=11)
        caption = "Score of the best of the first k programs; 1 is the fastest program of its task."
        return Plot("Top-k score by k", caption, fragment(figure, "top-k", caption))


def _operators(comparison: ModelComparison, measure: str) -> Plot:
    by = {name: comparison.by_operator(name) for name in comparison.names()}
    operators = list(next(iter(by.values())))
    position = np.arange(len(operators))
    height = 0.8 / len(by)
    with canvas(_HALF, 1.5 + 0.15 * len(by) + 0.2 * len(by) * len(operators)) as figure:
        axes = figure.subplots()
        for number, (name, of_operator) in enumerate(by.items()):
            values = [of_operator[operator][measure] for operator in operators]
            place = position + (number - (len(by) - 1) / 2) * height
            hatch = None if number < len(_SERIES) else "///"
            axes.barh(
                place,
                values,
                height=0.88 * height,
                color=_SERIES[number % len(_SERIES)],
                label=name,
                hatch=hatch,
                edgecolor=GRID,
                linewidth=0,
            )
        counts = next(iter(by.values()))
        axes.set_yticks(position, [f"{o} ({counts[o]['tasks']:.0f})" for o in operators])
        axes.invert_yaxis()
        axes.set_xlabel(BARS[measure])
        axes.legend(loc="lower left", bbox_to_anchor=(-0.2, 1), ncols=3, borderaxespad=0, fontsize=11)
        caption = (
            f"Mean {BARS[measure]} of the held-out tasks of each operator, with their number in brackets."
        )
        title = f"{BARS[measure][0].upper()}{BARS[measure][1:]} by operator"
        return Plot(title, caption, fragment(figure, f"operators-{measure}", caption))


def _network_bars(comparison: ModelComparison) -> Plot | None:
    by = {name: comparison.by_network(name) for name in comparison.names()}
    rows = next(iter(by.values()))
    if not rows:
        return None
    position = np.arange(len(rows))
    height = 0.8 / len(by)
    with canvas(_HALF, 1.5 + 0.15 * len(by) + 0.2 * len(by) * len(rows)) as figure:
        axes = figure.subplots()
        for number, (name, networks) in enumerate(by.items()):
            place = position + (number - (len(by) - 1) / 2) * height
            values = [network["top_5_sums"] for network in networks]
            axes.barh(place, values, height=0.88 * height, color=_SERIES[number % len(_SERIES)], label=name)
        axes.set_yticks(position, [f"{network['network']} ({network['share']:.0%})" for network in rows])
        axes.invert_yaxis()
        axes.set_xlabel("top-5 score, ratio of sums")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.2, 1), ncols=3, borderaxespad=0, fontsize=11)
        caption = (
            "Best latency of a network's tasks over that of the best of the first five programs. Tasks are "
            "weighted by their calls; the share of the calls that has records is in brackets."
        )
        return Plot("Top-5 score by network", caption, fragment(figure, "networks", caption))


def _curve(comparison: ModelComparison, axis: str) -> Plot | None:
    points = [point for point in comparison.curve if point.training.axis == axis]
    if not points:
        return None
    measures = ("spearman", "top_1")
    with canvas(_WIDE, 4.6) as figure:
        grid = figure.subplots(1, len(measures))
        for axes, measure in zip(grid, measures, strict=True):
            for number, name in enumerate(dict.fromkeys(point.entry.name for point in points)):
                sizes, values = _series([point for point in points if point.entry.name == name], measure)
                axes.plot(sizes, values, label=name, marker=_MARKERS[number % 6], **_line(number))
            sizes = sorted({point.training.size for point in points})
            log_axis(axes, "x")
            axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
            axes.set_xlabel(f"{AXES[axis]} (log)")
            axes.set_ylabel(BARS[measure])
            axes.grid(axis="y")
        grid[0].legend(loc="best", fontsize=11)
        caption = (
            "Held-out tasks predicted by models that are trained on nested parts of the training data. If a "
            "line still rises, more data would help."
        )
        return Plot(
            f"Learning curve over {AXES[axis]}", caption, fragment(figure, f"curve-{axis}", caption), True
        )


def _series(points: list[CurvePoint], measure: str) -> tuple[list[int], list[float]]:
    """Sizes of the training sets and means of a metric over seeds."""
    sizes = sorted({point.training.size for point in points})
    of_size = [[point.entry for point in points if point.training.size == size] for size in sizes]
    return sizes, [row_of(entries).means[measure] for entries in of_size]


def _line(number: int) -> dict[str, Any]:
    return {
        "color": _SERIES[number % len(_SERIES)],
        "linestyle": _DASHES[number // len(_SERIES) % len(_DASHES)],
        "linewidth": 1.8,
    }
