"""Estimate of the bytes that a scheduled program moves past a cache, from the loops of its lowered form.

A store is a statement in a loop nest. Take the outermost loop for which the working set of one iteration fits
into the cache and that of the whole loop does not. Each iteration fetches the bytes that the previous one did
not touch, and the loops outside repeat that. Bytes beyond touching everything once are the excess of the
store; they add to the compulsory traffic of the task's arguments. An intermediate buffer that exceeds the
cache is written to the next memory and read back, so all of its bytes are excess.

Lines that follow each other are fetched ahead of their use. A program that reads a few lines of each row of a
matrix waits for each row, though it moves no more bytes than another. So the stretches of lines are counted,
too.

Cores take a line from each other when both write to it. A parallel loop over a few columns of a row makes
them do so all the time.

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
from tvm.tirx import BufferStore, For, ForKind, Var

from ..tvm_compat import argument_buffers, entry_function, without_layout_change
from .index_intervals import Indices, Interval
from .touched_boxes import Boxes, Lines, bits_of

MOST_SHARED = 1024
"""Iterations of a parallel loop at most whose lines are compared; longer loops are taken to share none."""

_IN_CACHES = ("", "global")
"""Scopes of buffers that go through caches."""

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
    """Bytes of the arguments of the entry function, a lower bound of the traffic of all programs."""
    arguments = argument_buffers(mod)
    return float(sum(np.prod(shape, dtype=np.float64) * bits_of(dtype) / 8 for shape, dtype in arguments))


class LoweredStores:
    """Stores of a scheduled module with their loops, lowered once for all counts."""

    def __init__(self, mod: tvm.IRModule) -> None:
        """`mod` is scheduled and not lowered."""
        self.compulsory_bytes = compulsory_bytes(mod)
        lowered = entry_function(_LOWER(without_layout_change(mod)))
        found: list[tuple[Sequence[For], BufferStore]] = []
        _collect(lowered.body, (), found)
        self.stores: Sequence[tuple[Sequence[For], BufferStore]] = found
        """Each store with its loops, outermost first."""
        self._nests = [_StoreNest(loops, store, frozenset(lowered.params)) for loops, store in found]
        self._known: dict[tuple[int, int, int | None], list[_Fetch]] = {}
        """What each store fetches past a cache, by its size, its lines and its span."""

    def traffic_bytes(self, cache_bytes: int, line_bytes: int = 1, span_bytes: int | None = None) -> float:
        """Estimated bytes that one call moves past a cache of `cache_bytes` with lines of `line_bytes`.

        Lines of 1 byte count elements, as registers hold them. Lines whose addresses differ by a multiple of
        `span_bytes` compete for one set of the cache; without it any line may be anywhere. Buffers in a GPU's
        shared memory, registers and fragments do not count.
        """
        fetches = self._fetches(cache_bytes, line_bytes, span_bytes)
        return self.compulsory_bytes + sum(each.excess_bytes for each in fetches)

    def fetched_runs(self, cache_bytes: int, line_bytes: int, span_bytes: int | None = None) -> float:
        """Stretches of lines that follow each other in which one call fetches past a cache."""
        return sum(each.runs for each in self._fetches(cache_bytes, line_bytes, span_bytes))

    def contested_stores(self, cores: int, line_bytes: int) -> float:
        """Stores of one call into lines that another core writes, too: each waits for the line."""
        return sum(nest.contested_stores(cores, line_bytes) for nest in self._nests)

    def scattered_accesses(self) -> float:
        """Elements that vectors of one call load or store one by one, as they do not follow each other."""
        return sum(nest.scattered_accesses() for nest in self._nests)

    def _fetches(self, cache_bytes: int, line_bytes: int, span_bytes: int | None) -> list[_Fetch]:
        cache = cache_bytes, line_bytes, span_bytes
        if cache not in self._known:
            self._known[cache] = [nest.fetch(*cache) for nest in self._nests if nest.boxes]
        return self._known[cache]


def traffic_bytes(
    mod: tvm.IRModule, cache_bytes: int, line_bytes: int = 1, span_bytes: int | None = None
) -> float:
    """Estimated bytes that one call of a scheduled module moves past a cache; see `LoweredStores`."""
    return LoweredStores(mod).traffic_bytes(cache_bytes, line_bytes, span_bytes)


def loop_extent(loop: For) -> int:
    """Iterations of a loop, 1 if they are not constant."""
    return int(getattr(loop.extent, "value", 1))


def _collect(node: object, loops: tuple[For, ...], found: list[tuple[Sequence[For], BufferStore]]) -> None:
    def enter(loop: For) -> tvm_ffi.WalkResult:
        _collect(loop.body, (*loops, loop), found)
        return tvm_ffi.WalkResult.SKIP

    tvm_ffi.structural_walk(
        node, [(For, enter), (BufferStore, lambda store: found.append((loops, store)))], order="pre"
    )


class _Fetch(NamedTuple):
    """Lines of its buffers that a store fetches past a cache in the iterations of a loop, `visits` times."""

    visits: float
    lines: Sequence[Lines]
    once: NDArray[np.float64]  # [n_buffers], bytes that count elsewhere

    @property
    def excess_bytes(self) -> float:
        """Bytes beyond touching all arguments, and intermediates within the cache, once."""
        fetched = self.visits * np.array([each.fetched_bytes for each in self.lines])
        return float(np.maximum(fetched - self.once, 0.0).sum())

    @property
    def runs(self) -> float:
        """Stretches of lines that follow each other."""
        return self.visits * sum(each.fetched_runs for each in self.lines)


class _StoreNest:
    """A store in its loops, outermost first, and the boxes that it touches."""

    def __init__(self, loops: Sequence[For], store: BufferStore, arguments: frozenset[Var]) -> None:
        self.starts = np.array([int(getattr(loop.min, "value", 0)) for loop in loops], dtype=np.int64)
        self.extents = np.array(list(map(loop_extent, loops)), dtype=np.int64)
        kinds = [loop.kind for loop in loops]
        self.vectors = np.array([kind == ForKind.VECTORIZED for kind in kinds], dtype=np.bool_)
        self.shared_loop = None
        if ForKind.PARALLEL in kinds and store.buffer.scope() in _IN_CACHES:
            self.shared_loop = kinds.index(ForKind.PARALLEL)
        accesses: defaultdict[Var, list[Sequence[object]]] = defaultdict(list)
        accesses[store.buffer].append(store.indices)
        tvm_ffi.structural_walk(
            store.value, (TensorLoad, lambda load: accesses[load.source].append(load.indices))
        )
        self.indices = Indices([loop.loop_var for loop in loops])
        self.boxes = [
            Boxes(buffer, indices, self.indices, is_argument=buffer in arguments)
            for buffer, indices in accesses.items()  # the store's access is the first
            if buffer.scope() in _IN_CACHES
        ]

    def fetch(self, cache_bytes: int, line_bytes: int, span_bytes: int | None) -> _Fetch:
        """Lines that are fetched into a cache: all arguments once where everything stays in it."""
        levels = [
            boxes.in_lines(corners, line_bytes)
            for boxes, corners in zip(self.boxes, self._at_levels, strict=True)
        ]
        footprints, occupied = _footprints(levels, span_bytes)
        fits = occupied <= cache_bytes
        # A single statement counts as fitting into any cache.
        outermost_fitting = int(np.argmax(fits)) if fits.any() else len(self.extents)
        if outermost_fitting == 0:
            arguments = np.array([boxes.is_argument for boxes in self.boxes])
            lines = [levels[number].at_first() for number in np.flatnonzero(arguments)]
            return _Fetch(1.0, lines, footprints[arguments, 0])
        loop = outermost_fitting - 1
        visits = float(np.prod(self.extents[:loop], dtype=np.float64))
        stays = np.array([boxes.is_argument or boxes.bytes <= cache_bytes for boxes in self.boxes])
        once = np.where(stays, footprints[:, 0], 0.0)
        corners = self._corners(loop)
        lines = [boxes.in_lines(each, line_bytes) for boxes, each in zip(self.boxes, corners, strict=True)]
        return _Fetch(visits, lines, once)

    def scattered_accesses(self) -> float:
        """Elements of vectors that are loaded or stored one by one."""
        extents = self.extents[self.vectors]
        lanes = int(np.prod(extents))
        if lanes == 1:
            return 0.0
        at = np.repeat(self.starts[:, None], lanes, axis=1)
        at[self.vectors] += np.array(np.unravel_index(np.arange(lanes), extents.tolist()))
        intervals = self.indices.intervals(at, at)
        vectors = float(np.prod(self.extents[~self.vectors], dtype=np.float64))
        return vectors * sum(boxes.scattered(intervals) for boxes in self.boxes)

    def contested_stores(self, cores: int, line_bytes: int) -> float:
        """Stores into lines that iterations of the parallel loop on other cores write, too.

        Cores have equal parts of the loop, in order. A buffer that each iteration has for itself
        is written at the same indices by all of them, and no other one is.
        """
        if self.shared_loop is None:
            return 0.0
        count = int(self.extents[self.shared_loop])
        if not 1 < count <= MOST_SHARED:
            return 0.0
        corners = self._corners(self.shared_loop)[0]
        if (corners[0] == corners[0][:, :1]).all():
            return 0.0
        lines = self.boxes[0].in_lines(corners, line_bytes)
        share = lines.shared_between(np.arange(count) // -(-count // cores))
        return float(np.prod(self.extents[~self.vectors], dtype=np.float64) * share.mean())

    @cached_property
    def _at_levels(self) -> list[Interval]:
        """Corners of each buffer's box within the `l` outer loops, each [rank, n_loops + 1]."""
        position = np.arange(len(self.extents))[:, None]
        inside = np.arange(len(self.extents) + 1)[None, :] <= position
        low = np.repeat(self.starts[:, None], inside.shape[1], axis=1)
        intervals = self.indices.intervals(low, low + np.where(inside, self.extents[:, None] - 1, 0))
        return [boxes.corners(intervals) for boxes in self.boxes]

    def _corners(self, loop: int) -> list[Interval]:
        """Corners of each buffer's box by the iterations of a loop, each [rank, iterations]."""
        low = np.repeat(self.starts[:, None], self.extents[loop], axis=1)
        low[loop] += np.arange(self.extents[loop])
        high = low.copy()
        high[loop + 1 :] += self.extents[loop + 1 :, None] - 1
        intervals = self.indices.intervals(low, high)
        return [boxes.corners(intervals) for boxes in self.boxes]


def _footprints(
    lines: Sequence[Lines], span_bytes: int | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bytes that buffers touch at each moment, and bytes that they occupy in a cache together.

    They are [n_buffers, n] and [n].
    """
    touched = np.array([each.bytes for each in lines])
    occupied = touched.sum(axis=0)
    if span_bytes is not None:
        crowded = np.array([each.crowding(span_bytes) for each in lines])
        occupied = occupied + (touched * (crowded - 1)).max(axis=0)
    return touched, occupied
