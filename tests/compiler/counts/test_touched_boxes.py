"""Boxes of lines."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from foretune.compiler.counts.touched_boxes import Lines
from hypothesis import given
from hypothesis import strategies as st

Box = tuple[tuple[int, int], ...]
"""First and last line of each axis."""


def lines_of(boxes: list[Box]) -> Lines:
    low, high = np.moveaxis(np.array(boxes, dtype=np.int64), 2, 0)
    extents = high.max(axis=0) + 1
    return Lines(low.T, high.T, 64.0, extents, np.full(len(extents) - 1, 64, dtype=np.int64))


def inside(box: Box) -> set[tuple[int, ...]]:
    return set(product(*(range(low, high + 1) for low, high in box)))


@st.composite
def boxes_on_cores(draw: st.DrawFn) -> tuple[list[Box], list[int]]:
    """Boxes with their cores; half of them are tiles, which are equal or apart on each axis."""
    rank = draw(st.integers(1, 3))
    starts = st.integers(0, 4)
    if draw(st.booleans()):
        size = draw(st.integers(1, 3))
        interval = starts.map(lambda start: (start * size, start * size + size - 1))
    else:
        interval = st.tuples(starts, st.integers(0, 3)).map(lambda pair: (pair[0], sum(pair)))
    boxes = draw(st.lists(st.tuples(*[interval] * rank), min_size=2, max_size=12))
    return boxes, draw(st.lists(st.integers(0, 2), min_size=len(boxes), max_size=len(boxes)))


@given(boxes_on_cores())
def test_lines_of_other_cores_are_counted_one_by_one(drawn: tuple[list[Box], list[int]]) -> None:
    boxes, cores = drawn
    held = list(map(inside, boxes))
    expected = [
        min(
            sum(len(box & other) for other, its in zip(held, cores, strict=True) if its != core) / len(box), 1
        )
        for box, core in zip(held, cores, strict=True)
    ]
    assert lines_of(boxes).shared_between(np.array(cores)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("boxes", "cores", "shares"),
    [
        ([((0, 1),), ((2, 3),), ((0, 1),)], [0, 0, 1], [1, 0, 1]),  # equal or apart
        ([((0, 3),), ((3, 6),), ((7, 7),)], [0, 1, 1], [0.25, 0.25, 0]),  # one of four lines in common
        ([((0, 1), (0, 1)), ((0, 1), (1, 2))], [0, 1], [0.5, 0.5]),  # a column of two
        ([((0, 1),), ((0, 3),)], [0, 0], [0, 0]),  # on one core
    ],
)
def test_shares_of_lines(boxes: list[Box], cores: list[int], shares: list[float]) -> None:
    assert lines_of(boxes).shared_between(np.array(cores)).tolist() == shares
