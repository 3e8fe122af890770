"""Estimated number of programs that a reuse search measures (ETO, section 6.1).

The ranges of Algorithm 1 depend on the parent's program, which is unknown until the parent is searched. For
given sizes of its BShape, TShape and LShape, however, the programs can be counted. The estimate is the mean
over sampled sizes. It assumes that all unrolling pragmas and vector lengths are measured.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ....compiler.structure.domains import perfect_tiles
from ....compiler.structure.structure import Block
from ...reuse.conditions import Operator, SketchSignature
from ..search.costs import inputs
from ..search.program_features import FeatureRanges, Interval
from ..search.programs import VECTOR_BYTES
from ..search.search import ReuseTarget, shapes_of
from ..search.shapes import CpuShapes, GpuShapes, Shape, Shapes

SAMPLES = 10
"""Number of sampled sizes of the parent's shapes."""

UNROLLS = {"SSSRRSRS": 8, "SSRSRS": 4}
"""Number of MetaSchedule's unrolling pragmas by tiling structure, used if no sketch is known."""

_EVERY = Interval(1.0, float(2**62))


@dataclass(frozen=True)
class ShapeSizes:
    """Features that a sample assumes of a parent's program: B, T, and bytes of a step of all blocks (M)."""

    blocks: float
    threads: float
    shared: float


@dataclass(frozen=True, eq=False)
class ShapeTable:
    """BShapes of an operator, with the numbers that Algorithm 1 tries for each."""

    blocks: NDArray[np.float64]
    """Blocks of each BShape; [n]."""
    units: NDArray[np.float64]
    """Legal numbers of units (threads, or register tiles on a CPU) in a block, over all BShapes; [m]."""
    unit_rows: NDArray[np.intp]
    """Index of the BShape of each number of units; [m]."""
    step_bytes: NDArray[np.float64]
    """Bytes of a block's step by BShape and LShape; [n, loads]."""

    @classmethod
    def of(cls, shapes: Shapes, by_blocks: Sequence[tuple[int, Shape]]) -> ShapeTable:
        """Table of these BShapes, which are given with their numbers of blocks."""
        counts = [shapes.unit_counts(shape, _EVERY) for _, shape in by_blocks]
        tiles = np.array([shape for _, shape in by_blocks], dtype=np.int64).reshape(-1, len(shapes.space))
        return cls(
            np.array([count for count, _ in by_blocks], dtype=float),
            np.array([count for each in counts for count in each], dtype=float),
            np.repeat(np.arange(len(counts)), [len(each) for each in counts]),
            np.stack([shapes.bytes_of_steps(tiles, loads) for loads in shapes.load_shapes()], axis=1),
        )


@dataclass
class _Counted:
    """Operator with its shapes, which are read once."""

    shapes: Shapes
    samples: int
    seed: int

    @cached_property
    def table(self) -> ShapeTable:
        return ShapeTable.of(self.shapes, list(self.shapes.block_shapes(_EVERY)))

    @cached_property
    def sizes(self) -> list[ShapeSizes]:
        return list(sampled_sizes(self.shapes, self.samples, self.seed))


@dataclass
class SearchCost:
    """Estimated number of programs of a reuse pair, for use as edge costs in `LeastCostSelection`."""

    target: ReuseTarget
    samples: int = SAMPLES
    seed: int = 0
    _counted: dict[Operator, _Counted | None] = field(default_factory=dict, repr=False)

    def __call__(self, parent: Operator, child: Operator, sketch: Hashable | None = None) -> float:
        """Programs measured for the child, at least 1. Without a `sketch`, the maximum over its sketches.

        Args:
            parent, child: a reuse pair with blocks.
            sketch: SketchSignature of the parent's program.

        Raises ValueError for an operator without a block.
        """
        if parent.block is None or child.block is None:
            raise ValueError("an operator without its block has no estimate; describe it by operator_of")
        if isinstance(sketch, SketchSignature):
            return self._of_sketch(parent, child, sketch)
        known = sorted(child.sketches or (), key=repr)
        return max(
            (self._of_sketch(parent, child, s) for s in known), default=self._tiled(parent, child, None)
        )

    def _of_sketch(self, parent: Operator, child: Operator, sketch: SketchSignature) -> float:
        if sketch.structure in UNROLLS:
            return self._tiled(parent, child, sketch)
        return self._simplified(parent, child, sketch)

    def _tiled(self, parent: Operator, child: Operator, sketch: SketchSignature | None) -> float:
        ours, theirs = self._open(child), self._open(parent)
        if ours is None or theirs is None:
            return 1.0
        ranges = FeatureRanges.of(parent, child)
        annotations = _annotations(ours.shapes, sketch)
        counts = [programs_measured(ours.table, ranges, sizes, annotations) for sizes in theirs.sizes]
        return max(float(np.mean(counts)) if counts else 1.0, 1.0)

    def _simplified(self, parent: Operator, child: Operator, sketch: SketchSignature) -> float:
        """Number of other unrollings, plus the mean number of other thread counts within the range."""
        ranges = FeatureRanges.of(parent, child)
        space = child.space_iterations / parent.space_iterations
        categoricals = [values for kind, _, _, values in sketch.decisions if kind == "categorical"]
        total = 1.0
        for values in categoricals:
            if min(values) > 0:
                threads = np.array(values, dtype=float)
                inside = [ranges.threads.scaled(theirs).contains(threads * space).sum() for theirs in threads]
                total += max(float(np.mean(inside)) - 1.0, 0.0)
            else:
                total += len(values) - 1
        return total

    def _open(self, operator: Operator) -> _Counted | None:
        if operator not in self._counted:
            gpu = self.target.limits is not None
            structure = GpuShapes.structure if gpu else CpuShapes.structure
            assert operator.block is not None
            found = shapes_of(operator.block, structure, self.target)
            self._counted[operator] = (
                None if found is None or not found.space else _Counted(found, self.samples, self.seed)
            )
        return self._counted[operator]


def programs_measured(table: ShapeTable, ranges: FeatureRanges, sizes: ShapeSizes, annotations: int) -> int:
    """Number of programs that Algorithm 1 measures for a parent's program with these sizes.

    Args:
        table: BShapes of the child, one for each number of blocks.
        annotations: additional programs of each number of blocks, by unrolling and vector lengths.
    """
    blocks, threads, shared = (
        interval.scaled(size)
        for interval, size in (
            (ranges.blocks, sizes.blocks),
            (ranges.threads, sizes.threads),
            (ranges.shared, sizes.shared),
        )
    )
    rows = np.arange(len(table.blocks))
    tried = threads.contains(table.units * table.blocks[table.unit_rows])
    units = np.bincount(table.unit_rows[tried], minlength=len(rows))
    inside = blocks.contains(table.blocks) & (units > 0)
    apart = np.abs(np.log(table.step_bytes / max(sizes.shared / sizes.blocks, 1.0)))
    loads = shared.contains(table.blocks[:, None] * table.step_bytes)
    loads[rows, apart.argmin(axis=1)] = False  # the programs of the units include the default LShape
    return int(units[inside].sum() + loads[inside].sum() + annotations * inside.sum())


def sampled_sizes(shapes: Shapes, count: int, seed: int) -> Iterator[ShapeSizes]:
    """Yields up to `count` sizes of random legal BShapes, TShapes and LShapes of an operator."""
    rng = np.random.default_rng(seed)
    loads = shapes.load_shapes()
    found = 0
    for _ in range(20 * count):
        tiles = [perfect_tiles(int(extent), 2, 0) for extent in shapes.extents]
        rows = [table[rng.integers(len(table))] for table in tiles]
        shape = tuple(int(row[1]) for row in rows)
        blocks = math.prod(int(row[0]) for row in rows)
        units = shapes.unit_counts(shape, _EVERY)
        if units:
            threads = blocks * int(rng.choice(units))
            step = shapes.step_bytes(shape, loads[int(rng.integers(len(loads)))])
            if shapes.fits(step):
                yield ShapeSizes(blocks, threads, blocks * step)
                found += 1
        if found == count:
            return


def _annotations(shapes: Shapes, sketch: SketchSignature | None) -> int:
    """Number of other unrolling pragmas and vector lengths of a program."""
    if sketch is None:
        fetched: Sequence[int] = range(len(inputs(shapes.block))) if shapes.structure == "SSSRRSRS" else ()
        unrolls = UNROLLS[shapes.structure]
        elements = [inputs(shapes.block)[number].element_bytes for number in fetched]
        return unrolls - 1 + sum(_lengths(size, (1, 2, 3, 4, 8, 16)) for size in elements)
    vectors = {vector: read for read, _, _, vector in sketch.fetches if vector >= 0}
    total = 0
    for number, (kind, _, _, values) in enumerate(sketch.decisions):
        if kind == "categorical" and number in vectors:
            total += _lengths(_element_bytes(shapes.block, vectors[number]), values)
        elif kind == "categorical":
            total += len(values) - 1
    return total


def _element_bytes(block: Block, read: int) -> float:
    return block.reads[read].element_bytes


def _lengths(element_bytes: float, values: Sequence[float]) -> int:
    return sum(value > 1 and value * element_bytes in VECTOR_BYTES for value in values)


@dataclass(frozen=True)
class EstimateRatios:
    """Ratio of estimated to measured programs; ETO's mean is 1.04, from 0.54 to 1.62 (section 6.1)."""

    mean: float
    low: float
    high: float
    pairs: int


def estimate_ratios(pairs: Iterable[tuple[float, int]]) -> EstimateRatios:
    """Ratios for reuse pairs of (estimated, measured) programs; raises ValueError without pairs."""
    ratios = [estimated / measured for estimated, measured in pairs if measured]
    if not ratios:
        raise ValueError("no pair with a measured program; pass at least one")
    return EstimateRatios(float(np.mean(ratios)), min(ratios), max(ratios), len(ratios))
