"""Estimate of the bytes that a scheduled program moves past a cache, from the loops of its lowered form.

A store is a statement in a loop nest. Take the outermost loop for which the working set of one iteration fits
into the cache and that of the whole loop does not. Each iteration fetches the bytes that the previous one did
not touch, and the loops outside repeat that. Bytes beyond touching everything once are the excess of the
store; they add to the compulsory traffic of the task's arguments. An intermediate buffer that exceeds the
cache is written to the memory behind it and read back, so all of its bytes are excess.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
import tvm
import tvm_ffi
from numpy.typing import NDArray
from tvm.ir.expr import TensorLoad
from tvm.s_tir import transform as s_tir
from tvm.tirx import (
    Add,
    BufferStore,
    Cast,
    FloorDiv,
    FloorMod,
    For,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
    Var,
)

from .tvm_compat import argument_buffers, without_layout_change

Interval = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Lowest and highest value of an index at each of n steps."""
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

    def traffic_bytes(self, cache_bytes: int, line_bytes: int = 1) -> float:
        """Estimated bytes that one call moves past a cache of `cache_bytes` with lines of `line_bytes`.

        Lines of 1 byte count elements, as registers hold them. Buffers in a GPU's shared memory, registers
        and fragments do not count.
        """
        return self.compulsory_bytes + sum(nest.excess_bytes(cache_bytes, line_bytes) for nest in self._nests)


def traffic_bytes(mod: tvm.IRModule, cache_bytes: int, line_bytes: int = 1) -> float:
    """Estimated bytes that one call of a scheduled module moves past a cache; see `LoweredStores`."""
    return LoweredStores(mod).traffic_bytes(cache_bytes, line_bytes)


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
        self.variables = [loop.loop_var for loop in loops]
        self.starts = [int(getattr(loop.min, "value", 0)) for loop in loops]
        self.extents = [int(getattr(loop.extent, "value", 1)) for loop in loops]
        accesses: defaultdict[Var, list[Sequence[object]]] = defaultdict(list)
        accesses[store.buffer].append(store.indices)
        tvm_ffi.structural_walk(
            store.value, (TensorLoad, lambda load: accesses[load.source].append(load.indices))
        )
        self.boxes = [
            _Boxes(buffer, indices, buffer in arguments)
            for buffer, indices in accesses.items()
            if buffer.scope() in ("", "global")
        ]
        self._of_lines: dict[int, NDArray[np.float64]] = {}

    def excess_bytes(self, cache_bytes: int, line_bytes: int) -> float:
        """Bytes moved beyond touching all arguments, and intermediates within the cache, once."""
        if not self.boxes:
            return 0.0
        if line_bytes not in self._of_lines:
            self._of_lines[line_bytes] = self._footprints(line_bytes)
        footprints = self._of_lines[line_bytes]
        fits = footprints.sum(axis=0) <= cache_bytes
        # A single statement counts as fitting into any cache.
        outermost_fitting = int(np.argmax(fits)) if fits.any() else len(self.extents)
        if outermost_fitting == 0:
            return 0.0
        loop = outermost_fitting - 1
        visits = float(np.prod(self.extents[:loop], dtype=np.float64))
        stays = np.array([boxes.is_argument or boxes.bytes <= cache_bytes for boxes in self.boxes])
        once = np.where(stays, footprints[:, 0], 0.0)
        return float(np.maximum(visits * self._fetched(loop, line_bytes) - once, 0.0).sum())

    def _footprints(self, line_bytes: int) -> NDArray[np.float64]:
        """Bytes touched within the `l` outer loops, [n_buffers, n_loops + 1]."""
        levels = np.arange(len(self.extents) + 1)
        bounds = {
            variable: (np.full(len(levels), start), start + np.where(levels <= position, extent - 1, 0))
            for position, (variable, start, extent) in enumerate(
                zip(self.variables, self.starts, self.extents, strict=True)
            )
        }
        return np.array([boxes.sizes(bounds, len(levels), line_bytes) for boxes in self.boxes])

    def _fetched(self, loop: int, line_bytes: int) -> NDArray[np.float64]:
        """Bytes that one execution of a loop fetches: in each iteration those that are new; [n_buffers]."""
        moments = np.arange(self.extents[loop])
        bounds = {}
        for position, (variable, start, extent) in enumerate(
            zip(self.variables, self.starts, self.extents, strict=True)
        ):
            low = start + (moments if position == loop else np.zeros_like(moments))
            bounds[variable] = (low, low + (extent - 1 if position > loop else 0))
        return np.array([boxes.fetched(bounds, len(moments), line_bytes) for boxes in self.boxes])


class _Boxes:
    """Index boxes of a buffer that a store touches over n steps."""

    def __init__(self, buffer: Var, accesses: Sequence[Sequence[object]], is_argument: bool) -> None:
        self.shape = [int(extent) for extent in buffer.shape]
        self.element_bytes = _bits(str(buffer.dtype)) / 8
        self.accesses = accesses
        self.is_argument = is_argument
        self.bytes = float(np.prod(self.shape, dtype=np.float64)) * self.element_bytes

    def sizes(self, bounds: Mapping[Var, Interval], moments: int, line_bytes: int) -> NDArray[np.float64]:
        """Bytes of each box in whole lines, [moments]."""
        (low, high), unit_bytes = self._in_lines(bounds, moments, line_bytes)
        return np.prod(high - low + 1, axis=0, dtype=np.float64) * unit_bytes

    def fetched(self, bounds: Mapping[Var, Interval], moments: int, line_bytes: int) -> float:
        """Bytes of each box that are not in the previous one, in whole lines, summed."""
        (low, high), unit_bytes = self._in_lines(bounds, moments, line_bytes)
        size = np.prod(high - low + 1, axis=0, dtype=np.float64).sum()
        shared = np.minimum(high[:, 1:], high[:, :-1]) - np.maximum(low[:, 1:], low[:, :-1]) + 1
        kept = np.prod(np.maximum(shared, 0), axis=0, dtype=np.float64).sum()
        return float(size - kept) * unit_bytes

    def _in_lines(
        self, bounds: Mapping[Var, Interval], moments: int, line_bytes: int
    ) -> tuple[Interval, float]:
        """Corners with the last axis in lines, and the bytes of a line.

        Rows shorter than a line follow each other within lines: they are one axis with those around them.
        """
        low, high = self._corners(bounds, moments)
        line = int(line_bytes // self.element_bytes)
        rest, length = len(self.shape), 1
        while rest and length < line:
            rest -= 1
            length *= self.shape[rest]
        rest = min(rest, max(len(self.shape) - 1, 0))
        inner = np.cumprod([1, *self.shape[:rest:-1]])[::-1][:, None]  # strides of the merged axes
        elements = max(min(line, int(np.prod(self.shape[rest:]))), 1)
        flat = [
            np.vstack([part[:rest], (part[rest:] * inner).sum(axis=0) // elements]) for part in (low, high)
        ]
        return (flat[0], flat[1]), elements * self.element_bytes

    def _corners(self, bounds: Mapping[Var, Interval], moments: int) -> Interval:
        """Lowest and highest index of the bounding boxes of all accesses, each [rank, moments]."""
        low = np.zeros((len(self.shape), moments), dtype=np.int64)
        high = np.empty_like(low)
        for axis, extent in enumerate(self.shape):
            high[axis] = extent - 1
            intervals = [_interval(indices[axis], bounds) for indices in self.accesses]
            known = [interval for interval in intervals if interval is not None]
            if len(known) == len(intervals):
                # Accesses outside of the bounds are guarded by a condition.
                low[axis] = np.clip(reduce(np.minimum, [lowest for lowest, _ in known]), 0, extent - 1)
                high[axis] = np.clip(reduce(np.maximum, [highest for _, highest in known]), 0, extent - 1)
        return low, high


def _interval(index: object, bounds: Mapping[Var, Interval]) -> Interval | None:
    """Interval of an index, elementwise; None if the index is not arithmetic on loops."""
    if isinstance(index, IntImm):
        value = np.int64(index.value)
        return value, value
    if isinstance(index, Var):
        return bounds.get(index)
    if isinstance(index, Cast):
        return _interval(index.value, bounds)
    if not isinstance(index, (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max)):
        return None
    left, right = _interval(index.a, bounds), _interval(index.b, bounds)
    if left is None or right is None:
        return None
    (low, high), (other_low, other_high) = left, right
    if isinstance(index, Add):
        return low + other_low, high + other_high
    if isinstance(index, Sub):
        return low - other_high, high - other_low
    if isinstance(index, Min):
        return np.minimum(low, other_low), np.minimum(high, other_high)
    if isinstance(index, Max):
        return np.maximum(low, other_low), np.maximum(high, other_high)
    if np.any(other_low != other_high) or np.any(other_low <= 0):
        return None
    if isinstance(index, Mul):
        return low * other_low, high * other_low
    if isinstance(index, FloorDiv):
        return low // other_low, high // other_low
    # The remainder is an interval within one period; otherwise it may take any value.
    same = low // other_low == high // other_low
    return np.where(same, low % other_low, 0), np.where(same, high % other_low, other_low - 1)


def _bits(dtype: str) -> int:
    return tvm.DataType(dtype).bits
