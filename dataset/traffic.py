"""Estimate of the bytes that a scheduled program moves past a cache, from the loops of its lowered form.

A store is a statement in a loop nest. Take the outermost loop for which the working set of one iteration fits
into the cache and that of the whole loop does not. Each iteration fetches the bytes that the previous one did
not touch, and the loops outside repeat that. Bytes beyond touching everything once are the excess of the
store; they add to the compulsory traffic of the task's arguments. An intermediate buffer that exceeds the
cache is written to the memory behind it and read back, so all of its bytes are excess.

Caches have sets. Rows of a matrix that are a multiple of 4 KB apart share one set of a first-level cache,
which holds about ten of their lines, however large the cache is. A box thus occupies the lines of its fullest
set times the number of sets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import tvm
import tvm_ffi
from numpy.typing import NDArray
from tvm.ir.expr import TensorLoad
from tvm.s_tir import transform as s_tir
from tvm.tirx import BufferStore, For, IntImm, Var

from .index_intervals import Indices, Interval
from .tvm_compat import argument_buffers, without_layout_change

_LOWER = tvm.transform.Sequential(
    [
        s_tir.LowerCrossThreadReduction(),
        s_tir.LowerInitBlock(),
        s_tir.PlanAndUpdateBufferAllocationLocation(),
        s_tir.ConvertBlocksToOpaque(),
        s_tir.UnifyThreadBinding(),
        s_tir.CompactBufferAllocation(),
        s_tir.LowerMatchBuffer(),
        # Indices of compacted buffers are differences of equal terms, and many loops have one iteration.
        s_tir.StmtSimplify(),
    ]
)


def compulsory_bytes(mod: tvm.IRModule) -> float:
    """Bytes of the arguments of `main`, a lower bound of the traffic of all programs of the task."""
    arguments = argument_buffers(mod)
    return float(sum(np.prod(shape, dtype=np.float64) * _bits(dtype) / 8 for shape, dtype in arguments))


class LoweredStores:
    """Stores of a scheduled module with their loops, lowered once for all that is counted of them."""

    def __init__(self, mod: tvm.IRModule) -> None:
        """`mod` is scheduled and not lowered."""
        self.compulsory_bytes = compulsory_bytes(mod)
        lowered = _LOWER(without_layout_change(mod))["main"]
        found: list[tuple[Sequence[For], BufferStore]] = []
        _collect(lowered.body, (), found)
        self.stores: Sequence[tuple[Sequence[For], BufferStore]] = found
        """Each store with its loops, outermost first."""
        self._nests = [_StoreNest(loops, store, frozenset(lowered.params)) for loops, store in found]

    def traffic_bytes(self, cache_bytes: int, line_bytes: int = 1, span_bytes: int | None = None) -> float:
        """Estimated bytes that one call moves past a cache of `cache_bytes` with lines of `line_bytes`.

        Lines of 1 byte count elements, as registers hold them. Lines whose addresses differ by a multiple of
        `span_bytes` compete for one set of the cache; without it any line may be anywhere. Buffers in a GPU's
        shared memory, registers and fragments do not count.
        """
        return self.compulsory_bytes + sum(
            nest.excess_bytes(cache_bytes, line_bytes, span_bytes) for nest in self._nests
        )


def traffic_bytes(
    mod: tvm.IRModule, cache_bytes: int, line_bytes: int = 1, span_bytes: int | None = None
) -> float:
    """Estimated bytes that one call of a scheduled module moves past a cache; see `LoweredStores`."""
    return LoweredStores(mod).traffic_bytes(cache_bytes, line_bytes, span_bytes)


def _collect(node: object, loops: tuple[For, ...], found: list[tuple[Sequence[For], BufferStore]]) -> None:
    def enter(loop: For) -> tvm_ffi.WalkResult:
        _collect(loop.body, (*loops, loop), found)
        return tvm_ffi.WalkResult.SKIP

    tvm_ffi.structural_walk(
        node, [(For, enter), (BufferStore, lambda store: found.append((loops, store)))], order="pre"
    )


class _StoreNest:
    """Working sets of a store at each of its loops, outermost first."""

    def __init__(self, loops: Sequence[For], store: BufferStore, arguments: frozenset[Var]) -> None:
        self.starts = np.array([int(getattr(loop.min, "value", 0)) for loop in loops], dtype=np.int64)
        self.extents = np.array([int(getattr(loop.extent, "value", 1)) for loop in loops], dtype=np.int64)
        accesses: defaultdict[Var, list[Sequence[object]]] = defaultdict(list)
        accesses[store.buffer].append(store.indices)
        tvm_ffi.structural_walk(
            store.value, (TensorLoad, lambda load: accesses[load.source].append(load.indices))
        )
        self.indices = Indices([loop.loop_var for loop in loops])
        self.boxes = [
            _Boxes(buffer, indices, self.indices, is_argument=buffer in arguments)
            for buffer, indices in accesses.items()
            if buffer.scope() in ("", "global")
        ]

    def excess_bytes(self, cache_bytes: int, line_bytes: int, span_bytes: int | None) -> float:
        """Bytes moved beyond touching all arguments, and intermediates within the cache, once."""
        if not self.boxes:
            return 0.0
        footprints, occupied = self._footprints(line_bytes, span_bytes)
        fits = occupied <= cache_bytes
        # A single statement counts as fitting into any cache.
        outermost_fitting = int(np.argmax(fits)) if fits.any() else len(self.extents)
        if outermost_fitting == 0:
            return 0.0
        loop = outermost_fitting - 1
        visits = float(np.prod(self.extents[:loop], dtype=np.float64))
        stays = np.array([boxes.is_argument or boxes.bytes <= cache_bytes for boxes in self.boxes])
        once = np.where(stays, footprints[:, 0], 0.0)
        return float(np.maximum(visits * self._fetched(loop, line_bytes) - once, 0.0).sum())

    @cached_property
    def _at_levels(self) -> list[Interval]:
        """Corners of each buffer's box within the `l` outer loops, each [rank, n_loops + 1]."""
        position = np.arange(len(self.extents))[:, None]
        inside = np.arange(len(self.extents) + 1)[None, :] <= position
        low = np.repeat(self.starts[:, None], inside.shape[1], axis=1)
        intervals = self.indices.intervals(low, low + np.where(inside, self.extents[:, None] - 1, 0))
        return [boxes.corners(intervals) for boxes in self.boxes]

    def _footprints(
        self, line_bytes: int, span_bytes: int | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bytes touched within the `l` outer loops, and those that they occupy in a cache.

        They are [n_buffers, n_loops + 1] and [n_loops + 1].
        """
        lines = [
            boxes.in_lines(corners, line_bytes)
            for boxes, corners in zip(self.boxes, self._at_levels, strict=True)
        ]
        touched = np.array([each.bytes for each in lines])
        occupied = touched.sum(axis=0)
        if span_bytes is not None:
            crowded = np.array([each.crowding(span_bytes) for each in lines])
            occupied = occupied + (touched * (crowded - 1)).max(axis=0)
        return touched, occupied

    def _fetched(self, loop: int, line_bytes: int) -> NDArray[np.float64]:
        """Bytes that one execution of a loop fetches: in each iteration those that are new; [n_buffers]."""
        low = np.repeat(self.starts[:, None], self.extents[loop], axis=1)
        low[loop] += np.arange(self.extents[loop])
        high = low.copy()
        high[loop + 1 :] += self.extents[loop + 1 :, None] - 1
        intervals = self.indices.intervals(low, high)
        return np.array(
            [boxes.in_lines(boxes.corners(intervals), line_bytes).fetched_bytes for boxes in self.boxes]
        )


class _Boxes:
    """Index boxes of a buffer that a store touches over n moments."""

    def __init__(
        self, buffer: Var, accesses: Sequence[Sequence[object]], indices: Indices, *, is_argument: bool
    ) -> None:
        self.shape = [int(extent) for extent in buffer.shape] or [1]
        self.element_bytes = _bits(str(buffer.dtype)) / 8
        self.is_argument = is_argument
        self.bytes = float(np.prod(self.shape, dtype=np.float64)) * self.element_bytes
        at = [access or [IntImm("int64", 0)] for access in map(list, accesses)]  # a scalar has no axis
        self._rows = np.array([[indices.add(index) for index in access] for access in at], dtype=np.int64)
        self._last = np.array(self.shape, dtype=np.int64).reshape(-1, 1) - 1
        self._unknown = [
            axis
            for axis, of_accesses in enumerate(self._rows.T.tolist())
            if not all(map(indices.is_known, of_accesses))
        ]
        self._merging: dict[int, tuple[int, NDArray[np.int64], int, NDArray[np.int64]]] = {}

    def corners(self, intervals: Interval) -> Interval:
        """Lowest and highest index of the bounding boxes of all accesses, each [rank, moments]."""
        low, high = (part[self._rows] for part in intervals)
        lowest, highest = (low[0], high[0]) if len(low) == 1 else (low.min(axis=0), high.max(axis=0))
        # Accesses outside of the bounds are guarded by a condition.
        lowest = np.minimum(np.maximum(lowest, 0), self._last)
        highest = np.minimum(np.maximum(highest, 0), self._last)
        for axis in self._unknown:
            lowest[axis], highest[axis] = 0, self._last[axis]
        return lowest, highest

    def in_lines(self, corners: Interval, line_bytes: int) -> _Lines:
        """The boxes in whole lines.

        Rows shorter than a line follow each other within lines: they are one axis with those around them.
        """
        if line_bytes not in self._merging:
            self._merging[line_bytes] = self._merged(line_bytes)
        rest, inner, elements, strides = self._merging[line_bytes]
        low, high = (
            np.concatenate([part[:rest], (inner @ part[rest:] // elements)[None]]) for part in corners
        )
        return _Lines(low, high, elements * self.element_bytes, strides)

    def _merged(self, line_bytes: int) -> tuple[int, NDArray[np.int64], int, NDArray[np.int64]]:
        """First merged axis, strides of the merged ones, elements of a line, and bytes of other strides."""
        line = int(line_bytes // self.element_bytes)
        rest, length = len(self.shape), 1
        while rest and length < line:
            rest -= 1
            length *= self.shape[rest]
        rest = min(rest, max(len(self.shape) - 1, 0))
        strides = np.cumprod([1, *self.shape[:0:-1]], dtype=np.int64)[::-1]
        elements = max(min(line, int(np.prod(self.shape[rest:]))), 1)
        return rest, strides[rest:], elements, (strides[:rest] * self.element_bytes).astype(np.int64)


class _Lines(NamedTuple):
    """Boxes over n moments whose last axis counts lines."""

    low: NDArray[np.int64]  # [axes, n]
    high: NDArray[np.int64]  # [axes, n]
    line_bytes: float
    strides: NDArray[np.int64]  # [axes - 1], bytes

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

    def crowding(self, span_bytes: int) -> NDArray[np.float64]:
        """Lines of each box for a set of the cache over those of an even spread over all sets, [n].

        Lines whose addresses differ by a multiple of `span_bytes` fall into one set.
        """
        sets = span_bytes / self.line_bytes
        steps = (self.high - self.low + 1).astype(np.float64)
        periods = span_bytes / np.gcd(self.strides, span_bytes)
        apart = np.minimum(steps[:-1], periods[:, None]).prod(axis=0) * steps[-1]
        return sets / np.minimum(apart, sets)


def _bits(dtype: str) -> int:
    return tvm.DataType(dtype).bits
