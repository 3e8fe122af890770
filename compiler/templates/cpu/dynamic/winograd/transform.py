"""Statements of a transform of Winograd's algorithm for a vector of channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tvm import tirx

from .....types import WIDE
from ..nodes import allocated, local, number, sequence, store, vector

Element = Callable[[Any, Any, Any], Any]
"""An element of a tile from its row, its column and the lane of its channel."""

Written = Callable[[int, int, Any, Any], Any]
"""Makes the store of a result from its row, its column, its value and the lane of its channel."""


def transformed(matrix: Any, lanes: int, of: Element, written: Written) -> Any:
    """Statement that writes matrix @ tile @ matrix^T, for a tile of vectors.

    Columns come first, and one axis after the other: both at once take more multiply-adds.
    """
    count, size = matrix.shape
    half = local([count, size, lanes], WIDE, "half")

    def down(row: int, column: int, lane: Any) -> Any:
        value = _combined(matrix[row], [of(at, column, lane) for at in range(size)])
        return store(half, value, [row, column, lane])

    def along(row: int, column: int, lane: Any) -> Any:
        value = _combined(matrix[column], [loaded(half, row, at, lane) for at in range(size)])
        return written(row, column, value, lane)

    def vectors(statement: Element, columns: int) -> list[Any]:
        places = [(row, column) for row in range(count) for column in range(columns)]
        return [vector(lanes, partial(statement, *place)) for place in places]

    return allocated([half], sequence(*vectors(down, size), *vectors(along, count)))


def loaded(array: Any, row: Any, column: Any, lane: Any) -> Any:
    """An element of an array of vectors."""
    return tirx.BufferLoad(array, [number(row), number(column), lane])


def _combined(row: Sequence[float], values: Sequence[Any]) -> Any:
    """A row of a matrix times the values, without multiplications by 0 and 1."""
    terms = sorted(
        ((float(factor), value) for factor, value in zip(row, values, strict=True) if factor),
        key=lambda term: term[0] != 1,
    )
    (factor, value), *rest = terms
    total = _times(value, factor)
    for factor, value in rest:
        total = total - value if factor == -1 else total + _times(value, factor)
    return total


def _times(value: Any, factor: float) -> Any:
    return value if factor == 1 else value * tirx.const(factor, WIDE)
