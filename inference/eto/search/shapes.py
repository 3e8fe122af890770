"""BShape, TShape and LShape of multi-level tiling, and the choice of each by cost (ETO, section 5.1)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ....compiler.structure.domains import Table, perfect_tiles
from ....compiler.structure.limits import MAX_VTHREADS, GpuLimits
from ....compiler.structure.structure import Block, Floats
from .costs import (
    CPU_LINE_BYTES,
    GPU_LINE_BYTES,
    block_line_requests,
    inputs,
    register_requests,
    shared_requests,
)
from .program_features import Interval

MOST_SHAPES = 2**16
"""Maximum number of shapes compared; from a larger number, this many are taken in even steps."""

LARGEST_INNERMOST = 64
"""Largest innermost factor of MetaSchedule's tiles."""

Tiles = NDArray[np.int64]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class TShape:
    """Shape of the outputs of a thread (GPU) or of a register tile (CPU), by space axis."""

    virtual: Shape
    """Parts of the block's tile, one per virtual thread; on a CPU, register tiles in each step's tile."""
    tile: Shape
    """Outputs of a thread in each part; on a CPU, outputs of a register tile."""


class Shapes(ABC):
    """Shapes of the multi-level tiling of one block.

    T counts *units*. A unit is a thread, or on a CPU a register tile.
    """

    structure: str
    """MetaSchedule's tiling structure."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.space = [axis for axis, reduces in enumerate(block.reduction) if not reduces]
        self.reduction = [axis for axis, reduces in enumerate(block.reduction) if reduces]
        self.extents = np.array([block.extents[axis] for axis in self.space], dtype=np.int64)

    # --- BShape ---------------------------------------------------------------------------------------------

    def block_shapes(self, blocks: Interval) -> Iterator[tuple[int, Shape]]:
        """Yields each number of blocks in the interval with its BShape of lowest cost (GetBShape)."""
        tables = [perfect_tiles(int(extent), 2, 0) for extent in self.extents]
        rows = _products(tables, lambda rows: rows[:, :, 0].prod(axis=1) <= blocks.high * (1 + 1e-6))
        counts = rows[:, :, 0].prod(axis=1)
        rows, counts = _kept(blocks.contains(counts.astype(float)), rows, counts)
        costs = counts * self._block_cost(self._tile(rows[:, :, 1]))
        for row in _cheapest(counts, costs, rows[:, :, 1].max(axis=1, initial=1)):
            yield int(counts[row]), tuple(rows[row, :, 1].tolist())

    # --- LShape ---------------------------------------------------------------------------------------------

    def load_shapes(self) -> list[Shape]:
        """LShapes with at most one value above the least, as in GetLShape; lines 14 and 15 use them too."""
        least = [self._least_loads(self.block.extents[axis]) for axis in self.reduction]
        found = {tuple(least): None}
        for place, axis in enumerate(self.reduction):
            for loads, inside in perfect_tiles(self.block.extents[axis], 2, 0).tolist():
                if loads > least[place] and inside >= 1:
                    shape = (*least[:place], loads, *least[place + 1 :])
                    found[shape] = None
        return list(found)

    def load_shape(self, shape: Shape, wanted_bytes: float) -> Shape:
        """LShape whose bytes per step of a block are closest to those in the parent's program (GetLShape)."""
        shapes = self.load_shapes()
        apart = [abs(math.log(self.step_bytes(shape, loads) / max(wanted_bytes, 1.0))) for loads in shapes]
        return shapes[int(np.argmin(apart))]

    def step_bytes(self, shape: Shape, loads: Shape) -> float:
        """Bytes of all inputs that a block reads in one step of the outer reduction."""
        return float(self.bytes_of_steps(np.array([shape]), loads)[0])

    def bytes_of_steps(self, shapes: Tiles, loads: Shape) -> NDArray[np.float64]:
        """The same for BShapes [n, space axes]; [n]."""
        tile = self._tile(shapes, loads)
        found = np.zeros(len(shapes))
        for read in inputs(self.block):
            found += read.footprint(tile)[0]
        return found

    def _least_loads(self, extent: int) -> int:
        """Smallest number of steps of a reduction loop that leaves a legal tile."""
        return 1

    # --- TShape ---------------------------------------------------------------------------------------------

    @abstractmethod
    def unit_shapes(self, shape: Shape, loads: Shape, units: Interval) -> Iterator[tuple[int, TShape]]:
        """Yields each number of a block's units in the interval with its TShape of lowest cost.

        This is GetTShape.
        """

    def unit_counts(self, shape: Shape, units: Interval) -> list[int]:
        """Numbers of a block's units in the interval, without their TShapes."""
        found = np.ones(1)
        for size in shape:
            found = np.unique(np.outer(found, perfect_tiles(size, 2, 0)[:, 0]))
            found = found[found <= units.high * 1.001]
        return found[units.contains(found) & self._legal_units(found)].astype(int).tolist()

    def fits(self, step_bytes: float) -> bool:
        """Whether a block can hold the inputs of a step."""
        return True

    def _legal_units(self, counts: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Whether a block may have each of these numbers of units."""
        return np.ones(len(counts), dtype=np.bool_)

    # --- Tiles ----------------------------------------------------------------------------------------------

    @abstractmethod
    def space_tile(self, extent: int, block: int, virtual: int, tile: int) -> list[int]:
        """Factors of a space loop (GetS)."""

    @abstractmethod
    def reduction_tile(self, extent: int, loads: int) -> list[int]:
        """Factors of a reduction loop (GetS)."""

    @abstractmethod
    def _block_cost(self, tile: Sequence[Floats]) -> Floats:
        """BShape cost of one block; [n]."""

    def _tile(self, space: Tiles, loads: Shape | None = None) -> list[Floats]:
        """Extents by axis of tiles [n, space axes], with one step of the reduction or the whole reduction."""
        tile = [np.full(len(space), extent, np.float32) for extent in self.block.extents]
        for place, axis in enumerate(self.reduction):
            tile[axis] = tile[axis] / np.float32(1 if loads is None else loads[place])
        for place, axis in enumerate(self.space):
            tile[axis] = space[:, place].astype(np.float32)
        return tile


class GpuShapes(Shapes):
    """Shapes of SSSRRSRS: blocks, virtual threads, threads and two levels inside of a thread."""

    structure = "SSSRRSRS"

    def __init__(self, block: Block, limits: GpuLimits) -> None:
        super().__init__(block)
        self._limits = limits

    def unit_shapes(self, shape: Shape, loads: Shape, units: Interval) -> Iterator[tuple[int, TShape]]:
        """See Shapes; shared memory determines the cost. At equal costs, fewer virtual threads are better."""
        most = min(units.high, self._limits.threads) * (1 + 1e-6)

        def allowed(rows: Tiles) -> NDArray[np.bool_]:
            few: NDArray[np.bool_] = (rows[:, :, 0].prod(axis=1) <= MAX_VTHREADS) & (
                rows[:, :, 1].prod(axis=1) <= most
            )
            return few

        rows = _products([perfect_tiles(size, 3, 0) for size in shape], allowed)
        counts = rows[:, :, 1].prod(axis=1)
        inside = units.contains(counts.astype(float)) & (counts >= self._limits.min_threads)
        rows, counts = _kept(inside, rows, counts)
        fetched = [int(extent[0]) for extent in self._tile(np.array([shape]), loads)]
        for count in np.unique(counts).tolist():
            (of_count,) = _kept(counts == count, rows)
            virtual, threads, inner = of_count[:, :, 0], of_count[:, :, 1], of_count[:, :, 2]
            costs = shared_requests(self.block, fetched, self.space, virtual, threads, inner)
            row = int(np.lexsort((virtual.prod(axis=1), costs))[0])
            yield count, TShape(tuple(virtual[row].tolist()), tuple(inner[row].tolist()))

    def fits(self, step_bytes: float) -> bool:
        """See Shapes."""
        return step_bytes <= self._limits.shared_bytes

    def _legal_units(self, counts: NDArray[np.floating]) -> NDArray[np.bool_]:
        legal: NDArray[np.bool_] = (counts >= self._limits.min_threads) & (counts <= self._limits.threads)
        return legal

    def space_tile(self, extent: int, block: int, virtual: int, tile: int) -> list[int]:
        """See Shapes: the last factor is the least divisor of the number of outputs of a thread."""
        last = least_divisor(tile)
        return [extent // block, virtual, block // (virtual * tile), tile // last, last]

    def reduction_tile(self, extent: int, loads: int) -> list[int]:
        """See Shapes."""
        last = least_divisor(extent // loads)
        return [loads, extent // (loads * last), last]

    def _block_cost(self, tile: Sequence[Floats]) -> Floats:
        return block_line_requests(self.block, tile, GPU_LINE_BYTES)


class CpuShapes(Shapes):
    """Shapes of SSRSRS, which the paper lacks: chunks (S0), tiles of a step (S2, S3), registers (S3).

    BShape is a chunk. Its cost is the number of cache lines of its inputs. TShape is a register tile, with
    the number of register tiles that a step of the outer reduction covers. Its cost is the number of vectors
    that register tiles load plus the number of lines that the tiles of all steps touch. The first counts
    requests to the nearest cache, the second requests past it.
    """

    structure = "SSRSRS"

    def __init__(self, block: Block, vector_bytes: int = 32) -> None:
        """`vector_bytes` is the width of the target's vectors."""
        super().__init__(block)
        self._vector_bytes = vector_bytes

    def unit_shapes(self, shape: Shape, loads: Shape, units: Interval) -> Iterator[tuple[int, TShape]]:
        """See Shapes."""
        outputs = math.prod(shape)
        most = outputs / max(units.low, 1e-9) * (1 + 1e-6)
        tables = [perfect_tiles(size, 3, LARGEST_INNERMOST) for size in shape]
        rows = _products(tables, lambda rows: rows[:, :, 2].prod(axis=1) <= most)
        counts = outputs // rows[:, :, 2].prod(axis=1)
        rows, counts = _kept(units.contains(counts.astype(float)) & self._allowed(rows), rows, counts)
        tiles = rows[:, :, 1] * rows[:, :, 2]
        register = self._tile(rows[:, :, 2], tuple(self.block.extents[axis] for axis in self.reduction))
        depth = math.prod(self.block.extents[axis] for axis in self.reduction)
        costs = counts * depth * register_requests(self.block, register, self._vector_bytes)
        steps = outputs // tiles.prod(axis=1) * math.prod(loads)
        costs = costs + steps * block_line_requests(self.block, self._tile(tiles, loads), CPU_LINE_BYTES)
        for row in _cheapest(counts, costs, tiles.prod(axis=1)):
            shaped = TShape(tuple(rows[row, :, 1].tolist()), tuple(rows[row, :, 2].tolist()))
            yield int(counts[row]), shaped

    def _allowed(self, tiles: Tiles) -> NDArray[np.bool_]:
        """Whether steps may have these tiles [n, space axes, (S1, S2, S3)]; [n]."""
        return np.ones(len(tiles), dtype=np.bool_)

    def space_tile(self, extent: int, block: int, virtual: int, tile: int) -> list[int]:
        """See Shapes."""
        return [extent // block, block // (virtual * tile), virtual, tile]

    def reduction_tile(self, extent: int, loads: int) -> list[int]:
        """See Shapes."""
        return [loads, extent // loads]

    def _least_loads(self, extent: int) -> int:
        return next(d for d in range(1, extent + 1) if extent % d == 0 and extent // d <= LARGEST_INNERMOST)

    def _block_cost(self, tile: Sequence[Floats]) -> Floats:
        return block_line_requests(self.block, tile, CPU_LINE_BYTES)


class OneCoreShapes(CpuShapes):
    """Shapes that one core runs: a single step covers the chunk, since steps run in parallel like chunks.

    Tasks of a few microseconds are faster on one core, because it takes as long to start the others.
    """

    def _allowed(self, tiles: Tiles) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = (tiles[:, :, 0] == 1).all(axis=1)
        return found


@lru_cache(maxsize=4096)
def least_divisor(number: int) -> int:
    """Least divisor of a number, except 1 (GetS); 1 for 1."""
    return next((d for d in range(2, number + 1) if number % d == 0), 1)


def _products(tables: Sequence[Table], allowed: Callable[[Tiles], NDArray[np.bool_]]) -> Tiles:
    """Combinations of one row of each table, allowed after every table; int64 [n, tables, width]."""
    width = tables[0].shape[1]
    found = np.empty((1, 0, width), dtype=np.int64)
    for table in tables:
        pairs = np.indices((len(found), len(table))).reshape(2, -1)
        found = np.concatenate([found[pairs[0]], table[pairs[1]][:, None, :]], axis=1)
        found = found[allowed(found)]
        found = found[:: -(-len(found) // MOST_SHAPES) or 1]
    return found


def _kept(mask: NDArray[np.bool_], *arrays: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    return tuple(array[mask] for array in arrays)


def _cheapest(
    groups: NDArray[np.int64], costs: NDArray[np.floating], then: NDArray[np.integer]
) -> Iterator[int]:
    """Row of lowest cost in each group, by ascending group; `then` decides between equal costs."""
    order = np.lexsort((then, costs, groups))
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    yield from order[starts].tolist()
