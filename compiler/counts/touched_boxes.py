"""Boxes of indices that the stores of a program touch in its buffers, in elements and in lines of a cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm.tirx import IntImm, Var

from .index_intervals import Indices, Interval

STREAMS = 16
"""Streams at most that a prefetcher of a CPU follows at a time."""


class Boxes:
    """Index boxes of a buffer that a store touches over n moments."""

    def __init__(
        self, buffer: Var, accesses: Sequence[Sequence[object]], indices: Indices, *, is_argument: bool
    ) -> None:
        self.shape = [int(extent) for extent in buffer.shape] or [1]
        self.element_bytes = bits_of(str(buffer.dtype)) / 8
        self.is_argument = is_argument
        self.bytes = float(np.prod(self.shape, dtype=np.float64)) * self.element_bytes
        at = [access or [IntImm("int64", 0)] for access in map(list, accesses)]  # a scalar has no axis
        self._strides = np.cumprod([1, *self.shape[:0:-1]], dtype=np.int64)[::-1]
        self._rows = np.array([[indices.add(index) for index in access] for access in at], dtype=np.int64)
        self._last = np.array(self.shape, dtype=np.int64).reshape(-1, 1) - 1
        known = np.array([list(map(indices.is_known, access)) for access in self._rows.tolist()])
        self._known = np.asarray(known.all(axis=1))
        self._unknown = np.flatnonzero(~known.all(axis=0))
        self._merging: dict[int, _Merging] = {}

    def corners(self, intervals: Interval) -> Interval:
        """Lowest and highest index of the bounding boxes of all accesses, each [rank, moments]."""
        low, high = (part[self._rows] for part in intervals)
        lowest, highest = (low[0], high[0]) if len(low) == 1 else (low.min(axis=0), high.max(axis=0))
        # Accesses outside of the bounds are guarded by a condition.
        lowest = np.minimum(np.maximum(lowest, 0), self._last)
        highest = np.minimum(np.maximum(highest, 0), self._last)
        lowest[self._unknown], highest[self._unknown] = 0, self._last[self._unknown]
        return lowest, highest

    def in_lines(self, corners: Interval, line_bytes: int) -> Lines:
        """The boxes in whole lines.

        Rows shorter than a line follow each other within lines: they are one axis with those around them.
        """
        if line_bytes not in self._merging:
            self._merging[line_bytes] = self._merged(line_bytes)
        rest, inner, elements, extents, strides = self._merging[line_bytes]
        low, high = (
            np.concatenate([part[:rest], (inner @ part[rest:] // elements)[None]]) for part in corners
        )
        return Lines(low, high, elements * self.element_bytes, extents, strides)

    def _merged(self, line_bytes: int) -> _Merging:
        line = int(line_bytes // self.element_bytes)
        rest, length = len(self.shape), 1
        while rest and length < line:
            rest -= 1
            length *= self.shape[rest]
        rest = min(rest, max(len(self.shape) - 1, 0))
        inner = self._strides[rest:]
        elements = max(min(line, int(np.prod(self.shape[rest:]))), 1)
        lines = int(inner @ self._last[rest:, 0]) // elements + 1
        return _Merging(
            rest,
            inner,
            elements,
            np.array([*self.shape[:rest], lines], dtype=np.int64),
            (self._strides[:rest] * self.element_bytes).astype(np.int64),
        )

    def scattered(self, intervals: Interval) -> int:
        """Different elements of accesses whose elements do not follow each other over the moments.

        Each moment has one value of each index, such as a lane of a vector. Compilers load an element once
        for all lanes that need it.
        """
        at = (self._strides[:, None] * intervals[0][self._rows]).sum(axis=1)  # [accesses, moments]
        steps = np.diff(at, axis=1)
        together = (steps == 1).all(axis=1) | (steps == 0).all(axis=1)
        different = 1 + (np.diff(np.sort(at, axis=1), axis=1) != 0).sum(axis=1)
        elements = np.where(self._known, np.where(together, 0, different), at.shape[1])
        return int(elements.sum())


class _Merging(NamedTuple):
    """Axes of a buffer as those of its lines."""

    rest: int
    """First of the axes that are merged."""
    inner: NDArray[np.int64]  # [merged], their strides in elements
    elements: int
    """Elements of a line."""
    extents: NDArray[np.int64]  # [axes of lines]
    strides: NDArray[np.int64]  # [axes of lines - 1], bytes


class Lines(NamedTuple):
    """Boxes over n moments whose last axis counts lines."""

    low: NDArray[np.int64]  # [axes, n]
    high: NDArray[np.int64]  # [axes, n]
    line_bytes: float
    extents: NDArray[np.int64]  # [axes], of the whole buffer
    strides: NDArray[np.int64]  # [axes - 1], bytes

    def at_first(self) -> Lines:
        """The box of the first moment alone."""
        return self._replace(low=self.low[:, :1], high=self.high[:, :1])

    @property
    def bytes(self) -> NDArray[np.float64]:
        """Bytes of each box, [n]."""
        lines: NDArray[np.float64] = np.multiply.reduce(self.high - self.low + 1, axis=0, dtype=np.float64)
        return lines * self.line_bytes

    @property
    def fetched_bytes(self) -> float:
        """Bytes of each box that are not in the previous one, summed."""
        shared = np.minimum(self.high[:, 1:], self.high[:, :-1]) - np.maximum(
            self.low[:, 1:], self.low[:, :-1]
        )
        kept = np.prod(np.maximum(shared + 1, 0), axis=0, dtype=np.float64).sum()
        return float(self.bytes.sum() - kept * self.line_bytes)

    @property
    def fetched_runs(self) -> float:
        """Stretches of lines of each box that are not in the previous one, summed; lines follow each other.

        A stretch that goes on where the previous box ended is none, unless there are more than `STREAMS`.
        """
        low, high, extents = self.low, self.high, self.extents
        while len(low) > 1 and not low[-1].any() and (high[-1] == extents[-1] - 1).all():  # whole rows
            whole = extents[-1]
            low = np.concatenate([low[:-2], low[-2:-1] * whole])
            high = np.concatenate([high[:-2], high[-2:-1] * whole + whole - 1])
            extents = np.concatenate([extents[:-2], extents[-2:-1] * whole])
        steps = high - low + 1
        rows = steps[:-1].prod(axis=0, dtype=np.float64)
        shared = np.minimum(high[:, 1:], high[:, :-1]) - np.maximum(low[:, 1:], low[:, :-1]) + 1
        kept = np.maximum(shared[:-1], 0).prod(axis=0, dtype=np.float64)
        within = shared[-1] == steps[-1, 1:]
        goes_on = (kept == rows[1:]) & (kept == rows[:-1]) & (kept <= STREAMS)
        goes_on &= (low[-1, 1:] <= high[-1, :-1] + 1) & (high[-1, 1:] > high[-1, :-1])
        new = np.where(within, rows[1:] - kept, np.where(goes_on, 0.0, rows[1:]))
        return float(rows[0] + new.sum())

    def shared_between(self, core: NDArray[np.int64]) -> NDArray[np.float64]:
        """Share of each box's lines that boxes of other cores hold, too, [n] from 0 to 1.

        Lines count once for each box that holds them, and a share is at most 1. `core` is each box's core.
        """
        # On an axis where all boxes are equal all hold the same.
        axes = [
            (low, high)
            for low, high in zip(self.low, self.high, strict=True)
            if (low != low[0]).any() or (high != high[0]).any()
        ]
        found = [_tiles(*axis) for axis in axes]
        tiles = [numbers for numbers in found if numbers is not None]
        if len(tiles) == len(axes):  # equal or apart on each axis: so are the boxes
            box = np.zeros(len(core), dtype=np.int64)
            for numbers in tiles:
                box = box * (numbers.max() + 1) + numbers
            _, first, box = np.unique(box, return_index=True, return_inverse=True)
            elsewhere = np.zeros(len(first), dtype=np.bool_)
            elsewhere[box[core != core[first][box]]] = True
            return elsewhere[box].astype(np.float64)
        common = (core[:, None] != core).astype(np.float64)
        own = np.ones(len(core))
        for low, high in axes:
            ends = np.minimum(high[:, None], high)
            common *= np.maximum(ends - np.maximum(low[:, None], low) + 1, 0)
            own *= high - low + 1
        return np.minimum(common.sum(axis=1) / own, 1.0)

    def crowding(self, span_bytes: int) -> NDArray[np.float64]:
        """Lines of each box for a set of the cache over those of an even spread over all sets, [n].

        Lines whose addresses differ by a multiple of `span_bytes` fall into one set.
        """
        sets = span_bytes / self.line_bytes
        steps = (self.high - self.low + 1).astype(np.float64)
        periods = span_bytes / np.gcd(self.strides, span_bytes)
        apart = np.minimum(steps[:-1], periods[:, None]).prod(axis=0) * steps[-1]
        return sets / np.minimum(apart, sets)


def _tiles(low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Number of each interval among the different ones, [n]; None if two of them overlap in part."""
    lowest, first, number = np.unique(low, return_index=True, return_inverse=True)
    ends = high[first]
    if (ends[number] != high).any() or (ends[:-1] >= lowest[1:]).any():
        return None
    return number


def bits_of(dtype: str) -> int:
    """Bits of an element of a data type of TVM."""
    return tvm.DataType(dtype).bits
