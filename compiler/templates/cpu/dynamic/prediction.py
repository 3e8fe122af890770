"""Closed form of the time of a kernel of a family at one size, in cycles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tvm.target import Target

from ....instruction_sets import Instruction, registers_of
from ....targets import traits
from ..prediction import PER_CYCLE
from ..template import COLUMNS_FIRST, ROWS_FIRST
from .kernel_parameters import KernelParameters, row_tiles

_TILE_START, _SUM_START = 60, 4
"""Cycles to begin and end a register tile, and for each of its vectors."""

_LATENCY = 4
"""Cycles until a multiply-add can add to its result again, since Intel's Skylake and AMD's Zen 3."""

_PAIRS_LATENCY = 6
"""The same for one that adds products in pairs. Zen 4, where this was measured, begins as many in a cycle."""

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
    down, tall = row_tiles(size.rows, member.rows)
    across = math.ceil(math.ceil(size.columns / member.width) / member.panels)
    tiles = size.batch * size.lines * down * across
    heights = [(member.rows, tall), (member.least_rows, down - tall)]
    cost = sum(
        count * _tile(member, rows, size.lines * down, across, size, machine)
        for rows, count in heights
        if count
    )
    return math.ceil(tiles / machine.cores) * cost / down


def _tile(
    member: KernelParameters, rows: int, down: int, across: int, size: ProductSize, machine: Machine
) -> float:
    """Cycles of a register tile of so many rows, if there are `down` of them by `across`.

    A word of a sum has 4 bytes: one term of float32, or two of 16 bits.
    """
    vectors = member.panels * math.ceil(member.width / machine.lanes)
    sums = rows * vectors
    words = math.ceil(size.depth / member.step)
    latency = _PAIRS_LATENCY if member.pairs else _LATENCY
    step = max(sums / PER_CYCLE, (rows + vectors) / PER_CYCLE, latency) * (1 + _STREAM * (member.panels - 1))
    weight_bytes = 4 * member.columns
    kept, streamed = 4 * words * member.columns, 4 * words * rows
    by_columns = member.order == COLUMNS_FIRST
    # Weights stay in the second cache if all fit there, or while rows follow each other.
    if 4 * words * size.columns <= machine.cache_bytes:
        loads = [weight_bytes / _SECOND]
    elif by_columns and kept <= machine.cache_bytes and down > 1:
        loads = [weight_bytes / _AHEAD, *[weight_bytes / _SECOND] * (down - 1)]
    else:
        far = weight_bytes / _FAR
        loads = [far if down == 1 else (step**_OVERLAP + far**_OVERLAP) ** (1 / _OVERLAP)]
    step = sum(max(step, load) for load in loads) / len(loads)
    if by_columns and across > 1 and 4 * size.lines * size.rows * words > machine.cache_bytes:
        step = max(step, streamed / words / _FAR)
    # Each pass over the columns visits all lines of an output that no cache keeps, a part at a time.
    outputs = 4 * size.batch * size.lines * size.rows * size.columns
    apart = by_columns and across > 1 and outputs > machine.cache_bytes
    stored = 4 * rows * member.columns / _FAR if apart else 0.0
    return words * step + stored + _TILE_START + _SUM_START * sums
