"""The draft vector: what a candidate's tiles say of its speed, computed for a whole population at once.

One-Shot Tuner gives its predictor loop features, knobs and task features at one level (section 4.1.3). The
loop features there come from a lowered program; here they are derived from the same loops in closed form:
extents, bytes touched at each level, arithmetic intensity, traffic past each cache, parallel iterations,
vector use. Every quantity that spans magnitudes enters as log2(1 + x).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..hardware import Hardware
from .limits import bound_extent, shared_bytes
from .nest import Nest
from .read_traces import SketchReader
from .sketch import INLINED, Sketch
from .structure import Floats, TaskStructure

MAX_CUTS = 8  # CUDA's SSSRRSRS has the most bands
MAX_ACCESSES = 3  # the write and the first two reads
MAX_SPATIAL, MAX_REDUCTION = 5, 4
MAX_FACTORS = 5
MAX_LOCATIONS = 4
REGISTER_BYTES = (512, 2048)
"""What 16 AVX2 and 32 AVX-512 registers hold."""
CHUNK = 2048  # candidates at a time, whose arrays stay in a cache
COUNTED = ("CacheRead", "CacheWrite", "ComputeInline", "ReverseComputeAt", "RFactor", "SampleComputeLocation")

_CUT = 3 + 2 * MAX_ACCESSES + 1
DRAFT_DIM = (
    8 + len(COUNTED)
    + MAX_CUTS * _CUT
    + (len(REGISTER_BYTES) + 3) * (MAX_ACCESSES + 1)
    + (MAX_SPATIAL * MAX_FACTORS + MAX_REDUCTION * MAX_FACTORS)
    + 10 + 2 * MAX_ACCESSES
    + 3 * MAX_LOCATIONS
    + 2 * 3
    + 7
)  # fmt: skip
"""Length of a draft vector."""


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
        self.reduction = np.array([block.reduction[atom.axis] for atom in sketch.atoms], dtype=np.bool_)
        self.caches = [*REGISTER_BYTES, hardware.l1_bytes, hardware.l2_bytes, hardware.l3_bytes]
        # Of an untiled nest every loop is a band.
        bands = [atom.band for atom in sketch.atoms] if sketch.structure else list(range(len(sketch.atoms)))
        self.cuts = [i for i in range(len(bands)) if i == 0 or bands[i] != bands[i - 1]]

    def __call__(self, values: NDArray[np.int64]) -> NDArray[np.float32]:
        """float32 [n, DRAFT_DIM] of candidates by their values [n, sketch.width]."""
        found = np.empty((len(values), DRAFT_DIM), dtype=np.float32)
        for start in range(0, len(values), CHUNK):
            columns = self._columns(Nest.of(self.sketch, values[start : start + CHUNK]))
            found[start : start + CHUNK] = columns.T
        return found

    def _columns(self, nest: Nest) -> Floats:
        """[DRAFT_DIM, n]."""
        touched = [nest.footprint(access) for access in self.accesses]
        row = _Rows(len(nest))
        self._sketch_and_task(row)
        self._cuts(row, nest, touched)
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
            bool(sketch.structure), len(sketch.structure) == MAX_CUTS, sketch.cached_write,
            sketch.write_level / max(len(sketch.atoms), 1), 0 in sketch.inlined, 1 in sketch.inlined,
            sketch.pipeline_copies, len(self.structure.blocks),
        )  # fmt: skip
        row.add(*(counts.get(kind, 0) for kind in COUNTED))

    def _cuts(self, row: _Rows, nest: Nest, touched: list[tuple[Floats, Floats]]) -> None:
        """Of each band, innermost first: iterations within and outside, bytes and runs, and intensity."""
        ends = [*self.cuts[1:], len(self.sketch.atoms)]
        bands = list(zip(self.cuts, ends, strict=True))[::-1][:MAX_CUTS]
        inside = nest.outer[-1] / nest.outer
        for start, end in bands:
            total = sum(footprint[start] for footprint, _ in touched)
            row.log(np.prod(nest.extents[start:end], axis=0), nest.outer[start], inside[start] / total)
            for footprint, run in touched:
                row.log(footprint[start], run[start])
            row.skip(2 * (MAX_ACCESSES - len(touched)))
            row.log(total)
        row.skip((MAX_CUTS - len(bands)) * _CUT)

    def _traffic(self, row: _Rows, nest: Nest, footprints: list[Floats]) -> None:
        """Bytes fetched past each cache by each access, and iterations for each byte of all.

        The loop just outside of the largest tile that fits fetches what its iterations touch together, and
        the loops outside of it repeat that; compare `dataset.traffic`.
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
        """Factors of each axis; the innermost axis and its innermost factor have fixed places."""
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
        """Parallel iterations and their balance, vector lanes, unrolled body, innermost strides."""
        cores = np.float32(self.hardware.cores)
        parallel = self._parallel(nest)
        lanes = nest.lanes()
        register_lanes = self.hardware.vector_bits / 32
        step = nest.unroll_step()
        inside = nest.outer[-1] / nest.outer
        unrolled = np.max(np.where(inside <= np.maximum(step, 1), inside, 1), axis=0)
        accumulators = self._accumulators(nest)
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

    def _parallel(self, nest: Nest) -> Floats:
        """[n]: iterations that MetaSchedule runs in parallel, or blocks of a GPU.

        It fuses loops over space from outside until they exceed the limit, or up to the loop in which a
        consumer takes the output.
        """
        if any(atom.thread for atom in self.sketch.atoms):
            return bound_extent(nest, "blockIdx.x")
        count = np.ones(len(nest), dtype=np.float32)
        for i, extent in enumerate(nest.extents):
            if self.reduction[i] or (self.sketch.write_level and i >= self.sketch.write_level):
                break
            count = np.where(count > self.sketch.max_parallel, count, count * extent)
        return count

    def _accumulators(self, nest: Nest) -> Floats:
        """[n]: outputs inside the innermost reduction loop, which a program keeps in registers if it can."""
        inner = np.flatnonzero(self.reduction)
        start = int(inner[-1]) + 1 if len(inner) else len(self.reduction)
        product: Floats = np.prod(nest.extents[start:], axis=0, dtype=np.float32)
        return product

    def _innermost(self, nest: Nest) -> tuple[Floats, list[Floats]]:
        """Extent of the innermost loop of several iterations, and the stride of each access along it."""
        long = nest.extents[::-1] > 1
        loop = len(long) - 1 - np.argmax(long, axis=0)
        exists = long.any(axis=0)
        extent = np.where(exists, nest.extents[loop, np.arange(len(nest))], np.float32(1))
        return extent, [np.where(exists, of_loops[loop], np.float32(0)) for of_loops in self.strides]

    def _locations(self, row: _Rows, nest: Nest, footprints: list[Floats]) -> None:
        """Of each compute location: root or inlined, depth, and elements computed for each needed."""
        of_read = {decision: read for read, decision in self.sketch.producers}
        locations = [i for i, d in enumerate(self.sketch.decisions) if d.kind == "location"]
        # Those of the nest's own inputs first: their cost follows from the nest.
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
        """Copies into shared memory and the threads that make them."""
        for fetch in self.sketch.fetches[:2]:
            access = self.sketch.block.reads[fetch.read]
            row.log(nest.shared_footprint(access, fetch.level), nest.outer[fetch.level])
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
    """float32 [n, DRAFT_DIM] of traces (JSON) of one task, and which of them [n] are of a sketch of the task.

    The others, traces of another task or of a newer TVM, have zeros. `reader` is of the task.
    """
    vectors = np.zeros((len(traces), DRAFT_DIM), dtype=np.float32)
    known = np.zeros(len(traces), dtype=np.bool_)
    for sketch, values, numbers in reader.by_sketch(traces):
        vectors[numbers] = DraftFeaturizer(sketch, reader.structure, hardware)(values)
        known[numbers] = True
    return vectors, known


class _Rows:
    """Fills the columns of a vector one after the other."""

    def __init__(self, n: int) -> None:
        self._found = np.zeros((DRAFT_DIM, n), dtype=np.float32)
        self._at = 0

    def add(self, *columns: ArrayLike) -> None:
        """Appends columns as they are, each a scalar or [n]."""
        for column in columns:
            self._found[self._at] = np.asarray(column)
            self._at += 1

    def log(self, *columns: ArrayLike) -> None:
        """Appends log2(1 + x) of columns."""
        for column in columns:
            self._found[self._at] = np.log2(1 + np.asarray(column, dtype=np.float32))
            self._at += 1

    def log2(self, *columns: ArrayLike) -> None:
        """Appends log2(x) of columns of at least 1."""
        for column in columns:
            self._found[self._at] = np.log2(np.asarray(column, dtype=np.float32))
            self._at += 1

    def skip(self, count: int) -> None:
        """Leaves columns 0."""
        self._at += count

    def found(self) -> Floats:
        """All columns; raises ValueError where some were never reached."""
        if self._at != DRAFT_DIM:
            raise ValueError(f"{self._at} columns of {DRAFT_DIM}")
        return self._found
