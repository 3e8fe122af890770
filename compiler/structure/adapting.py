"""Decisions of a program as decisions of another task: tiles take the nearest factors that divide its loops.

Tasks tuned from each other (`inference.eto.search`) and schedules kept from earlier networks begin a
search with such decisions.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from .domains import Table
from .sketch import Decision, Sketch
from .space import Choices, SketchSpace

OUTERMOST, INNERMOST = 0.25, 1.5
"""Weights of a tile's outermost and innermost factor in the distance between tiles; the others have 1.

The outermost factor takes the difference in length of the loops. The innermost one decides on vectors.
"""


def corresponds(source: Sketch, sketch: Sketch) -> bool:
    """Whether the decisions of two sketches match each other by kind and order."""
    return (
        source.structure == sketch.structure
        and source.block.reduction == sketch.block.reduction
        and [(d.kind, d.width) for d in source.decisions] == [(d.kind, d.width) for d in sketch.decisions]
        and [(a.axis, a.band) for a in source.atoms] == [(a.axis, a.band) for a in sketch.atoms]
    )


def adapted_choices(source: Sketch, values: Sequence[int], space: SketchSpace, count: int) -> Choices:
    """Candidates of a space that are nearest to a program of another task, the nearest first.

    Each decision takes its nearest value. The candidates differ in tiles only: the distance of a candidate is
    the sum over its tiles of the weighted differences of their factors in powers of two.

    Args:
        source: sketch of the program, which `corresponds` to the sketch of the space.
        values: values [width] of the program.
        count: candidates wanted.

    Returns int32 [n, n_decisions] with n at most `count`, without equal rows.
    """
    nearest: list[NDArray[np.int64]] = []
    distances: list[list[float]] = []
    for ours, theirs, table in zip(source.decisions, space.sketch.decisions, space.domains, strict=True):
        wanted = values[ours.column : ours.column + ours.width]
        apart = _distances(ours, wanted, theirs, table)
        order = np.argsort(apart, kind="stable")[: count if theirs.kind == "tile" else 1]
        nearest.append(order)
        distances.append(apart[order].tolist())
    rows = [
        [int(order[place]) for order, place in zip(nearest, places, strict=True)]
        for places in islice(_places_by_sum(distances), count)
    ]
    return np.array(rows, dtype=np.int32).reshape(-1, len(nearest))


def _distances(ours: Decision, wanted: Sequence[int], theirs: Decision, table: Table) -> NDArray[np.float64]:
    """Distance of each value of a table to the wanted one; [n_values]."""
    if theirs.kind == "tile":
        weights = np.ones(theirs.width)
        if theirs.width > 1:
            weights[0], weights[-1] = OUTERMOST, INNERMOST
        apart: NDArray[np.float64] = np.abs(np.log2(table) - np.log2(np.array(wanted, float))) @ weights
        return apart
    if theirs.kind == "categorical":  # by the chosen value: tasks may have different tables
        return np.abs(np.array(theirs.values, float) - float(ours.values[wanted[0]]))
    # A loop has the same number in both nests; outside of all loops, and inlined, are kinds of their own.
    kind = np.minimum(table[:, 0], 0) != min(wanted[0], 0)
    return np.abs(table[:, 0] - wanted[0]) + np.where(kind, float(2**16), 0.0)


def _places_by_sum(columns: Sequence[Sequence[float]]) -> Iterator[tuple[int, ...]]:
    """Places in ascending columns, one of each, by ascending sum of their values."""
    start = (0,) * len(columns)
    waiting = [(sum(column[0] for column in columns), start)]
    seen = {start}
    while waiting:
        total, places = heapq.heappop(waiting)
        yield places
        for number, (column, place) in enumerate(zip(columns, places, strict=True)):
            following = (*places[:number], place + 1, *places[number + 1 :])
            if place + 1 < len(column) and following not in seen:
                seen.add(following)
                heapq.heappush(waiting, (total + column[place + 1] - column[place], following))
