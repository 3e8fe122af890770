"""Loops of a kernel of attention, over extents that are numbers or expressions of symbolic extents."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..dynamic.nodes import ceildiv, loop, number, sequence, simple, unrolled, vector

_UNROLLED = 4
"""Steps of a product in a row without a branch."""


def tiles_of(extent: Any, size: int) -> Any:
    """Number of tiles of `size` that cover an extent; a number for a number."""
    return math.ceil(extent / size) if isinstance(extent, int) else ceildiv(extent, size)


def in_vectors(extent: Any, lanes: int, body: Callable[[Any], Any]) -> Any:
    """Elements in whole vectors, and the remaining ones one by one."""
    whole, rest = _parts(extent, lanes)
    return sequence(
        None if _none(whole) else loop("vector", whole, lambda at: _lanes(lanes, at, body)),
        None if _none(rest) else loop("single", rest, lambda at: body(whole * lanes + at)),
    )


def _lanes(lanes: int, at: Any, body: Callable[[Any], Any]) -> Any:
    return vector(lanes, lambda lane: body(at * lanes + lane))


def steps(extent: Any, body: Callable[[Any], Any]) -> Any:
    """Steps of a product, a few of them without a branch."""
    whole, rest = _parts(extent, _UNROLLED)

    def several(at: Any) -> Any:
        return unrolled("again", _UNROLLED, lambda inner: body(at * _UNROLLED + inner))

    return sequence(
        None if _none(whole) else loop("step", whole, several),
        None if _none(rest) else loop("last", rest, lambda at: body(whole * _UNROLLED + at)),
    )


def _parts(extent: Any, size: int) -> tuple[Any, Any]:
    """Whole tiles of an extent, and the elements that remain."""
    if isinstance(extent, int):
        return divmod(extent, size)
    return simple(number(extent) // size), simple(number(extent) % size)


def _none(extent: Any) -> bool:
    return isinstance(extent, int) and extent == 0
