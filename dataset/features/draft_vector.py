"""Draft vector of a candidate, computed from its tile sizes for a whole population at once.

One-Shot Tuner gives its predictor loop features, knobs and task features at one level (section 4.1.3). The
paper reads the loop features off a lowered program; this module derives them from the same loops in closed
form: extents, bytes touched at each level, arithmetic intensity, traffic past each cache, parallel iterations
and vector use. Quantities that span orders of magnitude enter as log2(1 + x).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...compiler.structure.limits import shared_bytes
from ...compiler.structure.nest import Nest
from ...compiler.structure.parallelism import accumulated_outputs, bound_extent, parallel_iterations
from ...compiler.structure.read_traces import SketchReader
from ...compiler.structure.sketch import INLINED, Sketch
from ...compiler.structure.structure import Floats, TaskStructure
from ..hardware import Hardware

MAX_BANDS = 8  # CUDA's SSSRRSRS has the most bands
MAX_ACCESSES = 3  # the write and the first two reads
MAX_SPATIAL, MAX_REDUCTION = 5, 4
MAX_FACTORS = 5
MAX_LOCATIONS = 4
REGISTER_BYTES = (512, 2048)
"""Bytes of 16 AVX2 registers and of 32 AVX-512 registers."""
CHUNK_SIZE = 2048  # candidates at a time, so that their arrays stay in a cache
COUNTED_INSTRUCTIONS = (
    "CacheRead", "CacheWrite", "ComputeInline", "ReverseComputeAt", "RFactor", "SampleComputeLocation",
)  # fmt: skip

_BAND_COLUMNS = 3 + 2 * MAX_ACCESSES + 1
DRAFT_DIM = (
    8 + len(COUNTED_INSTRUCTIONS)
    + MAX_BANDS * _BAND_COLUMNS
    + (len(REGISTER_BYTES) + 3) * (MAX_ACCESSES + 1)
    + (MAX_SPATIAL * MAX_FACTORS + MAX_REDUCTION * MAX_FACTORS)
    + 10 + 2 * MAX_ACCESSES
    + 3 * MAX_LOCATIONS
    + 2 * 3
    + 7
)  # fmt: skip
"""Length of a draft vector."""

_TRAFFIC = 8 + len(COUNTED_INSTRUCTIONS) + MAX_BANDS * _BAND_COLUMNS
_CACHES = _TRAFFIC + len(REGISTER_BYTES) * (MAX_ACCESSES + 1)
_KNOBS = _CACHES + 3 * (MAX_ACCESSES + 1)
_PARALLEL = _KNOBS + (MAX_SPATIAL + MAX_REDUCTION) * MAX_FACTORS
DEVICE_COLUMNS = (
    *range(_CACHES, _KNOBS),  # traffic past the caches of the device
    _PARALLEL + 1, _PARALLEL + 2,  # balance of the parallel iterations over its cores
    _PARALLEL + 4, _PARALLEL + 5,  # lanes that fill its vector registers
    DRAFT_DIM - 3, DRAFT_DIM - 2,  # limits that MetaSchedule derives from the target's cores and vectors
)  # fmt: skip
"""Columns of a draft vector that depend on the device and not on the program alone."""

BAND_BYTES = tuple(range(8 + len(COUNTED_INSTRUCTIONS) + _BAND_COLUMNS - 1, _TRAFFIC, _BAND_COLUMNS))
"""Columns with the bytes that all accesses touch inside each band, from the innermost; 0 without the band."""
PARALLEL, BALANCE, LANES, FILLED, INNERMOST = (_PARALLEL + at for at in (0, 1, 3, 5, 9))
"""Columns of the parallel iterations, those of the busiest core over the mean, the lanes of a vector loop,
the share of registers that they fill, and the innermost extent."""


class DraftFeaturizer:
    """Draft vectors of the candidates of one sketch on one device."""

    def __init__(self, sketch: Sketch, structure: TaskStructure, hardware: Hardware) -> None:
        self.sketch = sketch
        self.structure = structure
        self.hardware = hardware
        block = sketch.block
        reads = [read for read in block.reads if read.buffer not in {w.buffer for w in block.writes}]
        self.accesses = [*block.writes[:1], *reads[: MAX_ACCESSES - 1]]
        self.strides = [
            np.array([access.stride(atom.axis) for atom in sketch.atoms], dtype=np.float32)
            for access in self.accesses
        ]
        self.caches = [*REGISTER_BYTES, hardware.l1_bytes, hardware.l2_bytes, hardware.l3_bytes]
        # Each loop of an untiled nest forms its own band.
        bands = [atom.band for atom in sketch.atoms] if sketch.structure else list(range(len(sketch.atoms)))
        self.band_starts = [i for i in range(len(bands)) if i == 0 or bands[i] != bands[i - 1]]

    def __call__(self, values: NDArray[np.int64]) -> NDArray[np.float32]:
        """Draft vectors, float32 [n, DRAFT_DIM], of candidates given by their values [n, sketch.width]."""
        found = np.empty((len(values), DRAFT_DIM), dtype=np.float32)
        for start in range(0, len(values), CHUNK_SIZE):
            columns = self._columns(Nest.of(self.sketch, values[start : start + CHUNK_SIZE]))
            found[start : start + CHUNK_SIZE] = columns.T
        return found

    def _columns(self, nest: Nest) -> Floats:
        """Draft vectors, transposed: [DRAFT_DIM, n]."""
        touched = [nest.footprint(access) for access in self.accesses]
        row = _Rows(len(nest))
        self._sketch_and_task(row)
        self._bands(row, nest, touched)
        self._traffic(row, nest, [footprint for footprint, _ in touched])
        self._knobs(row, nest)
        self._parallel_and_vector(row, nest)
        self._locations(row, nest, [footprint for footprint, _ in touched])
        self._fetches(row, nest)
        return row.found()

    def _sketch_and_task(self, row: _Rows) -> None:
        sketch = self.sketch
        counts = dict(sketch.counts)
        row.add(
            bool(sketch.structure), len(sketch.structure) == MAX_BANDS, sketch.cached_write,
            sketch.write_level / max(len(sketch.atoms), 1), 0 in sketch.inlined, 1 in sketch.inlined,
            sketch.pipeline_copies, len(self.structure.blocks),
        )  # fmt: skip
        row.add(*(counts.get(kind, 0) for kind in COUNTED_INSTRUCTIONS))

    def _bands(self, row: _Rows, nest: Nest, touched: list[tuple[Floats, Floats]]) -> None:
        """For each band from the innermost: iterations inside and outside, intensity, bytes and runs."""
        ends = [*self.band_starts[1:], len(self.sketch.atoms)]
        bands = list(zip(self.band_starts, ends, strict=True))[::-1][:MAX_BANDS]
        inside = nest.outer[-1] / nest.outer
        for start, end in bands:
            total = sum(footprint[start] for footprint, _ in touched)
            row.log(np.prod(nest.extents[start:end], axis=0), nest.outer[start], inside[start] / total)
            for footprint, run in touched:
                row.log(footprint[start], run[start])
            row.skip(2 * (MAX_ACCESSES - len(touched)))
            row.log(total)
        row.skip((MAX_BANDS - len(bands)) * _BAND_COLUMNS)

    def _traffic(self, row: _Rows, nest: Nest, footprints: list[Floats]) -> None:
        """Bytes that each access fetches past each cache, and iterations per byte of all accesses.

        Take the largest tile that fits into the cache. The loop just outside of it fetches the bytes that its
        iterations touch together, and the loops further out repeat that. See also `compiler.counts.traffic`.
        """
        total = np.sum(footprints, axis=0)
        columns = np.arange(len(nest))
        for size in self.caches:
            fits = total <= max(size, 1)
            fits[-1] = True  # a single iteration always fits
            level = np.maximum(np.argmax(fits, axis=0) - 1, 0)
            visits = nest.outer[level, columns]
            fetched = [visits * footprint[level, columns] for footprint in footprints]
            row.log(*fetched)
            row.skip(MAX_ACCESSES - len(fetched))
            row.log(nest.outer[-1] / np.sum(fetched, axis=0))

    def _knobs(self, row: _Rows, nest: Nest) -> None:
        """Tile factors of each axis; the innermost axis and its innermost factor come first."""
        for is_reduction, most in ((False, MAX_SPATIAL), (True, MAX_REDUCTION)):
            block = self.sketch.block
            axes = [axis for axis, reduces in enumerate(block.reduction) if reduces is is_reduction]
            axes = axes[::-1][:most]
            for axis in axes:
                atoms = [i for i, atom in enumerate(self.sketch.atoms) if atom.axis == axis]
                atoms = atoms[::-1][:MAX_FACTORS]
                row.log2(*(nest.extents[i] for i in atoms))
                row.skip(MAX_FACTORS - len(atoms))
            row.skip((most - len(axes)) * MAX_FACTORS)

    def _parallel_and_vector(self, row: _Rows, nest: Nest) -> None:
        """Parallel iterations and their balance, vector lanes, unrolled body and innermost strides."""
        cores = np.float32(self.hardware.cores)
        parallel = parallel_iterations(nest)
        lanes = nest.lanes()
        register_lanes = self.hardware.vector_bits / 32
        step = nest.unroll_step()
        inside = nest.outer[-1] / nest.outer
        unrolled = np.max(np.where(inside <= np.maximum(step, 1), inside, 1), axis=0)
        accumulators = accumulated_outputs(nest)
        row.log(parallel)
        row.add(np.ceil(parallel / cores) * cores / parallel, parallel >= cores)
        row.log(lanes)
        row.add(
            lanes % register_lanes == 0,
            lanes / (np.ceil(lanes / register_lanes) * register_lanes),
        )
        row.log(step, unrolled, accumulators)
        innermost, strides = self._innermost(nest)
        row.log(innermost)
        for stride in strides:
            row.log(stride)
            row.add(stride == 1)
        row.skip(2 * (MAX_ACCESSES - len(strides)))

    def _innermost(self, nest: Nest) -> tuple[Floats, list[Floats]]:
        """Extent of the innermost loop with several iterations, and the stride of each access along it."""
        long = nest.extents[::-1] > 1
        loop = len(long) - 1 - np.argmax(long, axis=0)
        exists = long.any(axis=0)
        extent = np.where(exists, nest.extents[loop, np.arange(len(nest))], np.float32(1))
        return extent, [np.where(exists, of_loops[loop], np.float32(0)) for of_loops in self.strides]

    def _locations(self, row: _Rows, nest: Nest, footprints: list[Floats]) -> None:
        """Each compute location: whether it is inlined, its depth, and elements computed per needed one."""
        of_read = {decision: read for read, decision in self.sketch.producers}
        locations = [i for i, d in enumerate(self.sketch.decisions) if d.kind == "location"]
        # The block's own inputs come first, as their cost follows from the nest.
        locations = sorted(locations, key=lambda i: i not in of_read)[:MAX_LOCATIONS]
        for number in locations:
            at = nest.values[:, self.sketch.decisions[number].column]
            redundant = np.zeros(len(nest), dtype=np.float32)
            depth = at.astype(np.float32)
            buffers = [access.buffer for access in self.accesses]
            read = of_read.get(number, -1)
            name = self.sketch.block.reads[read].buffer if read >= 0 else ""
            if name in buffers:
                footprint = footprints[buffers.index(name)]
                level = nest.location_level(number)
                columns = np.arange(len(nest))
                redundant = nest.outer[level, columns] * footprint[level, columns] / footprint[0]
                depth = level.astype(np.float32) / np.float32(len(footprint))
            row.add(at == INLINED, depth)
            row.log(redundant)
        row.skip(3 * (MAX_LOCATIONS - len(locations)))

    def _fetches(self, row: _Rows, nest: Nest) -> None:
        """Sizes of the copies into shared memory, and the threads that make them."""
        for fetch in self.sketch.fetches[:2]:
            row.log(nest.shared_footprint(fetch), nest.outer[fetch.level])
            if fetch.vector >= 0:
                decision = self.sketch.decisions[fetch.vector]
                row.add(np.array(decision.values)[nest.values[:, decision.column]])
            else:
                row.add(0)
        row.skip(3 * max(2 - len(self.sketch.fetches), 0))
        threads = bound_extent(nest, "threadIdx.x")
        row.log(threads, bound_extent(nest, "vthread.x"), shared_bytes(nest))
        row.add(threads % 32 == 0, self.sketch.max_parallel / 64, self.sketch.max_vector / 64)
        row.log(nest.outer[-1])


def draft_vectors(
    traces: Sequence[str], reader: SketchReader, hardware: Hardware
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Draft vectors of traces (JSON) of one task, and a mask of the traces that have a vector.

    Returns float32 [n, DRAFT_DIM] and bool [n]. A trace of another task or of a newer TVM is masked out and
    has a zero vector. `reader` must be the reader of the task.
    """
    vectors = np.zeros((len(traces), DRAFT_DIM), dtype=np.float32)
    known = np.zeros(len(traces), dtype=np.bool_)
    for sketch, values, numbers in reader.group_by_sketch(traces):
        vectors[numbers] = DraftFeaturizer(sketch, reader.structure, hardware)(values)
        known[numbers] = True
    return vectors, known


def moved_bytes(vectors: NDArray[np.float32], level: int = 2) -> NDArray[np.float64]:
    """Bytes that candidates fetch past the cache of a level, 1 to 3; draft vectors [n, DRAFT_DIM] -> [n]."""
    start = _CACHES + (level - 1) * (MAX_ACCESSES + 1)
    of_accesses = vectors[:, start : start + MAX_ACCESSES].astype(np.float64)
    found: NDArray[np.float64] = (np.exp2(of_accesses) - 1).sum(axis=1)
    return found


class _Rows:
    """Builder that fills the columns of the draft vectors in order."""

    def __init__(self, n: int) -> None:
        self._found = np.zeros((DRAFT_DIM, n), dtype=np.float32)
        self._at = 0

    def add(self, *columns: ArrayLike) -> None:
        """Append columns without a transformation, each a scalar or [n]."""
        for column in columns:
            self._found[self._at] = np.asarray(column)
            self._at += 1

    def log(self, *columns: ArrayLike) -> None:
        """Append log2(1 + x) of each column."""
        for column in columns:
            self._found[self._at] = np.log2(1 + np.asarray(column, dtype=np.float32))
            self._at += 1

    def log2(self, *columns: ArrayLike) -> None:
        """Append log2(x) of columns whose values are at least 1."""
        for column in columns:
            self._found[self._at] = np.log2(np.asarray(column, dtype=np.float32))
            self._at += 1

    def skip(self, count: int) -> None:
        """Leave `count` columns zero."""
        self._at += count

    def found(self) -> Floats:
        """All columns [DRAFT_DIM, n]; raises ValueError if their number is not DRAFT_DIM."""
        if self._at != DRAFT_DIM:
            raise ValueError(f"{self._at} columns were filled instead of DRAFT_DIM={DRAFT_DIM}")
        return self._found
