"""Plots of a comparison."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...figures import (
    AFTER,
    BAD,
    BEFORE,
    GRID,
    HALF,
    INK,
    MUTED,
    PANEL,
    PEER,
    canvas,
    fragment,
    label_share,
    log_axis,
    name_rows,
    shortened,
)
from ...page import Plot
from ...wording import capitalised, counted
from .learning_curve import AXES
from .result import ContestantRow, CurvePoint, ModelComparison, Standing, row_of

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
    caption = "Means over the held-out tasks; a model that is clearly the best is coloured" + (
        ", lines show the deviation over the seeds." if any(row.seeds > 1 for row in rows) else "."
    )
    standings = {measure: comparison.standing(measure) for measure in BARS}
    panels = [
        _measure_bars(rows, measure, standing, caption)
        for measure, standing in standings.items()
        if standing is not None
    ]
    return Plot("Main metrics", caption, tuple(panels), wide=True)


def _measure_bars(rows: list[ContestantRow], measure: str, standing: Standing, caption: str) -> str:
    values = [row.means[measure] for row in rows]
    best = standing.best if standing.clear else None
    deviation = np.nan_to_num([row.deviations[measure] for row in rows])
    position = np.arange(len(rows))
    with canvas(PANEL, 0.9 + 0.3 * len(rows)) as figure:
        axes = figure.subplots()
        axes.barh(
            position, values, color=[AFTER if row.name == best else BEFORE for row in rows], height=0.62
        )
        if deviation.any():
            axes.errorbar(values, position, xerr=deviation, fmt="none", ecolor=INK, elinewidth=1.2)
        for i, value in enumerate(values):
            end = (max(value + deviation[i], 0), i)
            axes.annotate(f"{value:.3f}", end, (4, 0), textcoords="offset points", va="center")
        axes.set_title(BARS[measure], fontsize=12, color=INK, loc="left")
        lowest = min(0, *(np.array(values) - deviation))
        highest = max(1.0, *(np.array(values) + deviation))
        names = [row.name for row in rows]
        axes.set_xlim(1.05 * lowest, lowest + (highest - lowest) / (1 - label_share(axes, names, 6)))
        axes.set_xticks([tick for tick in (-1.0, -0.5, 0.0, 0.5, 1.0) if tick >= lowest])
        name_rows(axes, names)
        return fragment(figure, f"bars-{measure}", f"{BARS[measure]}: {caption}")


def _scatter(comparison: ModelComparison) -> Plot:
    tasks = comparison.tasks
    known = np.flatnonzero(~np.isnan(tasks.score))
    if len(known) > _MAX_POINTS:
        known = np.random.default_rng(0).choice(known, _MAX_POINTS, replace=False)
    caption = (
        f"{counted(len(known), 'program')} of the held-out tasks. A score of 1 is the fastest program of its "
        "task; the points of a perfect model are on the line."
    )
    panels = []
    for number, name in enumerate(comparison.names()):
        prediction = comparison.of(name)[0].prediction[known]
        with canvas(PANEL, 3.3) as figure:
            axes = figure.subplots()
            size = 26 if len(known) < 300 else 9
            axes.scatter(tasks.score[known], prediction, s=size, color=AFTER, alpha=0.55, linewidths=0)
            axes.plot([0, 1], [0, 1], color=PEER, linewidth=1.4)
            # Models that only rank have a scale of their own.
            low, high = np.quantile(prediction, [0.005, 0.995])
            margin = 0.08 * (high - low or 1)
            axes.set_ylim(min(low, 0) - margin, max(high, 1) + margin)
            axes.set_title(shortened(name), fontsize=12, color=INK, loc="left")
            axes.grid(axis="y")
            axes.set_xlabel("measured score")
            axes.set_ylabel("predicted score")
            panels.append(fragment(figure, f"scatter-{number}", f"{name}: {caption}"))
    return Plot("Predicted against measured", caption, tuple(panels), wide=True)


def _top_k(comparison: ModelComparison) -> Plot:
    """Best score among the first k programs in predicted order, which a tuner would measure."""
    tasks = comparison.tasks
    depth = 32
    groups = [np.flatnonzero(tasks.group == task.group) for task in comparison.entries[0].metrics.per_task]
    with canvas(HALF, 3.9) as figure:
        axes = figure.subplots()
        for number, name in enumerate(comparison.names()):
            prediction = comparison.of(name)[0].prediction
            curves = []
            for rows in groups:
                order = np.lexsort((tasks.score[rows], -prediction[rows]))
                best = np.maximum.accumulate(tasks.score[rows][order])
                curves.append(np.pad(best[:depth], (0, max(depth - len(best), 0)), mode="edge"))
            axes.plot(
                np.arange(1, depth + 1), np.mean(curves, axis=0), label=shortened(name), **_line(number)
            )
        axes.set_xlabel("programs measured per task, in predicted order (log)")
        axes.set_ylabel("mean top-k score")
        axes.set_ylim(top=1.005)
        log_axis(axes, "x")
        axes.grid(axis="y")
        axes.legend(loc="lower right", fontsize=11)
        caption = "Score of the best of the first k programs; 1 is the fastest program of its task."
        return Plot("Top-k score by k", caption, (fragment(figure, "top-k", caption),))


def _operators(comparison: ModelComparison, measure: str) -> Plot:
    by = {name: comparison.by_operator(name) for name in comparison.names()}
    counts = next(iter(by.values()))
    names = [f"{operator} ({of['tasks']:.0f})" for operator, of in counts.items()]
    values = {name: [of[operator][measure] for operator in counts] for name, of in by.items()}
    caption = f"Mean {BARS[measure]} of the held-out tasks of each operator, with their number in brackets."
    svg = _grouped_bars(names, values, BARS[measure], f"operators-{measure}", caption)
    return Plot(f"{capitalised(BARS[measure])} by operator", caption, (svg,))


def _network_bars(comparison: ModelComparison) -> Plot | None:
    by = {name: comparison.by_network(name) for name in comparison.names()}
    networks = next(iter(by.values()))
    if not networks:
        return None
    names = [f"{network['network']} ({network['share']:.0%})" for network in networks]
    values = {name: [network["top_5_sums"] for network in of] for name, of in by.items()}
    caption = (
        "Best latency of a network's tasks over that of the best of the first five programs. Tasks are "
        "weighted by their calls; the share of the calls that has records is in brackets."
    )
    svg = _grouped_bars(names, values, "top-5 score, ratio of sums", "networks", caption)
    return Plot("Top-5 score by network", caption, (svg,))


def _grouped_bars(
    groups: list[str], values: dict[str, list[float]], quantity: str, prefix: str, caption: str
) -> str:
    """SVG with a bar of each model in each group."""
    height = 0.8 / len(values)
    with canvas(HALF, 1.2 + 0.15 * len(values) + 0.17 * len(values) * len(groups)) as figure:
        axes = figure.subplots()
        for number, (name, of_model) in enumerate(values.items()):
            place = np.arange(len(groups)) + (number - (len(values) - 1) / 2) * height
            axes.barh(
                place,
                of_model,
                height=0.88 * height,
                color=_SERIES[number % len(_SERIES)],
                label=shortened(name),
                hatch=None if number < len(_SERIES) else "///",
                edgecolor=GRID,
                linewidth=0,
            )
        name_rows(axes, groups)
        axes.set_xlabel(quantity)
        axes.legend(loc="lower left", bbox_to_anchor=(-0.2, 1), ncols=2, borderaxespad=0, fontsize=11)
        return fragment(figure, prefix, caption)


def _curve(comparison: ModelComparison, axis: str) -> Plot | None:
    points = [point for point in comparison.curve if point.training.axis == axis]
    if not points:
        return None
    caption = (
        "Held-out tasks predicted by models that are trained on nested parts of the training data. If a "
        "line still rises, more data would help."
    )
    panels = tuple(_curve_panel(points, axis, measure, caption) for measure in ("spearman", "top_1"))
    return Plot(f"Learning curve over {AXES[axis]}", caption, panels, wide=True)


def _curve_panel(points: list[CurvePoint], axis: str, measure: str, caption: str) -> str:
    with canvas(HALF, 3.6) as figure:
        axes = figure.subplots()
        for number, name in enumerate(dict.fromkeys(point.entry.name for point in points)):
            sizes, values = _series([point for point in points if point.entry.name == name], measure)
            axes.plot(sizes, values, label=shortened(name), marker=_MARKERS[number % 6], **_line(number))
        sizes = sorted({point.training.size for point in points})
        log_axis(axes, "x")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.set_xlabel(f"{AXES[axis]} (log)")
        axes.set_ylabel(BARS[measure])
        axes.grid(axis="y")
        axes.legend(loc="best", fontsize=11)
        return fragment(figure, f"curve-{axis}-{measure}", f"{BARS[measure]}: {caption}")


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
