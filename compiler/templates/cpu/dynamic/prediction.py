"""Closed form of the time of a kernel of a family at one size, in cycles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from tvm.target import Target

from ....instruction_sets import Instruction, registers_of
from ....targets import traits
from ..prediction import PER_CYCLE, collisions
from ..template import COLUMNS_FIRST, ROWS_FIRST
from .kernel_parameters import KernelParameters, row_tiles

Integers: TypeAlias = "NDArray[np.int64]"
Floats: TypeAlias = "NDArray[np.float64]"

_TILE_START, _SUM_START = 60, 4
"""Cycles to begin and end a register tile, and for each of its vectors."""

_LATENCY = 4
"""Cycles until a multiply-add can add to its result again, since Intel's Skylake and AMD's Zen 3."""

_PAIRS_LATENCY = 6
"""The same for one that adds products in pairs. Zen 4, where this was measured, begins as many in a cycle."""

_FIRST_BYTES = 1 << 15
"""Bytes of the first cache, the least of today's server CPUs."""

_SECOND, _AHEAD, _FAR = 28, 16, 12
"""Bytes a cycle of weights from the second cache, and from memory beyond it: fetched ahead, and not."""

_OVERLAP = 3
"""Exponent that joins cycles of multiply-adds with those of weights that each row of tiles fetches again.
Their maximum would have the shorter ones hidden whole. Values from 2 to 4 rank measured kernels alike."""

MOST_ROWS, MOST_PANELS = 30, 8
"""Rows of a register tile at most, and panels of one vector."""

MOST_VECTORS = 4
"""Vectors of a row of a panel at most."""

_STREAM = 0.01
"""Share of the time that each further panel of a register tile costs: it is one more stream from memory."""

_ALONE = 8
"""Rows of a register tile of one vector at most, if more columns are there: each product loads an element."""


@dataclass(frozen=True)
class Machine:
    """Properties of a CPU that the closed form uses."""

    lanes: int
    """Elements of a vector register."""
    registers: int
    cores: int
    cache_bytes: int = 1 << 19
    """Bytes of a core's second cache."""
    pairs: tuple[Instruction, ...] = ()
    """Instructions that add products of vectors in pairs."""

    @classmethod
    def of(cls, target: Target) -> Machine:
        """Properties of a target; float32 elements fill its registers."""
        can = traits(target)
        bits = can.vector_bits or 128
        pairs = tuple(one for one in can.instructions if one.step == 2 and not one.tiles)
        return cls(bits // 32, registers_of(bits), can.cores, pairs=pairs)

    def pairs_of(self, types: tuple[str, str, str], width: int) -> str:
        """Name of the instruction for panels of `width` columns and these types of data, weight and sums.

        Empty if there is none.
        """
        found = (one.name for one in self.pairs if one.types == types and width % one.lanes == 0)
        return next(found, "")


@dataclass(frozen=True)
class ProductSize:
    """Extents of a product at one size."""

    rows: int
    """Rows that a register tile may cross."""
    columns: int
    depth: int
    batch: int = 1
    lines: int = 1
    """Groups of rows of the same batch."""
    pitch: int = 0
    """Elements from the data of a row to that of the next one."""


@dataclass(frozen=True, eq=False)
class ProductSizes:
    """Extents of a product at several sizes, see `ProductSize`: int64 [sizes]."""

    rows: Integers
    columns: Integers
    depth: Integers
    batch: Integers
    lines: Integers
    pitch: Integers

    @classmethod
    def of(cls, sizes: Sequence[ProductSize]) -> ProductSizes:
        """The extents of these sizes."""
        return cls(*np.array([astuple(one) for one in sizes], np.int64).T)


def panel_widths(columns: int, lanes: int) -> list[int]:
    """Columns that panels of a packed weight may have: whole vectors, or a part of one for few columns.

    A register tile as wide as a panel reads its weights in one stream.
    """
    if columns < lanes:
        return [1 << (columns.bit_length() - 1)]
    return [vectors * lanes for vectors in range(1, MOST_VECTORS + 1) if vectors * lanes <= columns]


def members(
    width: int, most_rows: int, most_panels: int, machine: Machine, pairs: str = ""
) -> Iterator[KernelParameters]:
    """Kernels whose register tile fits into the registers, for at most so many rows and panels.

    `pairs` is the instruction that they multiply with, as in `KernelParameters`.
    """
    vectors = math.ceil(width / machine.lanes)
    for panels in range(1, min(most_panels, MOST_PANELS // vectors) + 1):
        across = panels * vectors
        for rows in range(1, min(most_rows, MOST_ROWS) + 1):
            # A single row reads each vector of weights once, from memory.
            if across == 1 < most_panels and rows > _ALONE:
                break
            needed = rows * across + 1 + (across if rows > 1 else 0)
            if needed > machine.registers:
                break
            for order in (COLUMNS_FIRST, ROWS_FIRST):
                yield KernelParameters(width, rows, panels, order, vectors, pairs)


def cycles(member: KernelParameters, size: ProductSize, machine: Machine) -> float:
    """Predicted cycles of a member at a size that it is right for."""
    return float(cycles_at(member, ProductSizes.of([size]), machine)[0])


def cycles_at(member: KernelParameters, sizes: ProductSizes, machine: Machine) -> Floats:
    """Predicted cycles of a member at sizes that it is right for: float64 [sizes]."""
    down, tall = row_tiles(sizes.rows, member.rows, np.maximum)
    across = _ceildiv(_ceildiv(sizes.columns, member.width), member.panels)
    tiles = sizes.batch * sizes.lines * down * across
    tall_cycles, short_cycles = (
        _tile(member, rows, sizes.lines * down, across, sizes, machine)
        for rows in (member.rows, member.least_rows)
    )
    cost = tall * tall_cycles + (down - tall) * short_cycles
    return _ceildiv(tiles, machine.cores) * cost / down


def _ceildiv(values: Integers, by: int) -> Integers:
    return -(-values // by)


def _tile(
    member: KernelParameters,
    rows: int,
    down: Integers,
    across: Integers,
    sizes: ProductSizes,
    machine: Machine,
) -> Floats:
    """Cycles of a register tile of so many rows, if there are `down` of them by `across`.

    A word of a sum has 4 bytes: one term of float32, or two of 16 bits.
    """
    vectors = member.panels * math.ceil(member.width / machine.lanes)
    sums, words = rows * vectors, _ceildiv(sizes.depth, member.step)
    latency = _PAIRS_LATENCY if member.pairs else _LATENCY
    busy = max(sums / PER_CYCLE, (rows + vectors) / PER_CYCLE, latency) * (1 + _STREAM * (member.panels - 1))
    step = busy * _collisions(rows, vectors, 4 * sizes.pitch // member.step)
    weight_bytes = 4 * member.columns
    by_columns = member.order == COLUMNS_FIRST
    # Weights stay in the second cache if all fit there, or while rows follow each other.
    near, ahead, far = (np.maximum(step, weight_bytes / speed) for speed in (_SECOND, _AHEAD, _FAR))
    joined = (step**_OVERLAP + (weight_bytes / _FAR) ** _OVERLAP) ** (1 / _OVERLAP)
    steps = np.where(down == 1, far, joined)
    if by_columns:
        stays = (4 * words * member.columns <= machine.cache_bytes) & (down > 1)
        steps = np.where(stays, near + (ahead - near) / down, steps)
    steps = np.where(4 * words * sizes.columns <= machine.cache_bytes, near, steps)
    stored = np.zeros(len(down))
    if by_columns:
        lines = 4 * sizes.lines * sizes.rows
        again = (across > 1) & (lines * words > machine.cache_bytes)
        steps = np.where(again, np.maximum(steps, 4 * rows / _FAR), steps)
        # Each pass over the columns visits all lines of an output that no cache keeps, a part at a time.
        apart = (across > 1) & (lines * sizes.batch * sizes.columns > machine.cache_bytes)
        stored = np.where(apart, 4 * rows * member.columns / _FAR, 0.0)
    return words * steps + stored + _TILE_START + _SUM_START * sums


def _collisions(rows: int, vectors: int, pitch_bytes: Integers) -> Floats:
    """`collisions` of a tile's rows for each distance between them."""
    different, places = np.unique(pitch_bytes, return_inverse=True)
    return np.array([collisions(int(one), rows, vectors, _FIRST_BYTES) for one in different])[places]
