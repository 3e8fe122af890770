"""Templates worth trying for a contraction: tens by rules of the architecture, ranked by a closed form.

Bolt's light-weight profiler (section 3.2.2) takes the parameters that suit the hardware and measures only
those. The rules are its guidelines for a CPU: the largest register tiles that the registers hold, since they
read the least for each multiply-add; enough tiles for all cores; and whole vectors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from math import prod

from ..hardware import Hardware
from .contraction import Axis, Contraction
from .instructions import Instruction
from .template import COLUMNS_FIRST, MOST_ROWS, ROWS_FIRST, Template
from .tile_intrinsics import MOST_ACROSS

MOST_VECTORS = 4
"""Vectors of a register tile along the columns."""

MOST_TILE_ROWS = 30
"""Rows of a register tile of vectors."""

_LATENCY = 5
"""Cycles until a multiply-add of vectors can add to its result again."""

_PER_CYCLE = 2
"""Multiply-adds and loads of vectors in a cycle, as server CPUs have them."""

_TILE_START, _ROW_START = 60, 4
"""Cycles to begin and end a register tile, and for each of its vectors, in which nothing is multiplied."""

_TILE_LOAD, _MOVE_BYTES = 8, 16
"""Cycles of loading a tile of AMX, and bytes a cycle from beyond the second cache."""


def candidates(task: Contraction, instruction: Instruction) -> list[Template]:
    """Templates of one instruction that fit the contraction and the registers; empty where none does.

    Columns must be whole vectors, and the depth whole steps of the instruction.
    """
    if task.column.extent % instruction.lanes or task.inner.extent % instruction.step:
        return []
    return list(_of_tiles(task, instruction) if instruction.tiles else _of_vectors(task, instruction))


def ranked(
    task: Contraction, instructions: Sequence[Instruction], hardware: Hardware | None, cores: int
) -> list[Template]:
    """Templates of all instructions, the fastest by the closed form first."""
    every = [template for instruction in instructions for template in candidates(task, instruction)]
    cache = hardware.l2_bytes if hardware is not None else 1 << 20
    return sorted(every, key=lambda template: cycles(task, template, cache, cores))


def cycles(task: Contraction, template: Template, cache_bytes: int, cores: int) -> float:
    """Estimated cycles of a template: multiply-adds or loads, whichever take longer, and memory traffic."""
    instruction = template.instruction
    steps = task.depth / instruction.step
    panels = math.ceil(task.column.extent / instruction.lanes / template.vectors)
    row_tiles = (
        prod(math.ceil(axis.extent / tile) for axis, tile in zip(task.rows, template.row_tile, strict=True))
        / template.row_tiles
    )
    tiles = task.batch_count * row_tiles * panels
    if instruction.tiles:
        words = template.words(task.inner.extent)
        multiplied = template.row_tiles * template.vectors * max(template.rows, 8)
        loaded = _TILE_LOAD * (
            template.row_tiles * template.rows / MOST_ROWS + template.vectors * words / MOST_ROWS
        )
        busy = steps / words * max(multiplied, loaded)
        stored = template.row_tiles * template.vectors * template.rows
    else:
        busy = busy_cycles(steps, template.rows, template.vectors)
        stored = template.rows * template.vectors
    computed = tiles * (busy + _TILE_START + _ROW_START * stored)
    element = 4 / instruction.step
    sizes = task.row_count, task.column.extent
    data, weight = (task.batch_count * task.depth * element * size for size in sizes)
    # The inner loop's operand is read in each iteration of the outer one, unless it stays in cache.
    again, once = (data, weight) if template.order == COLUMNS_FIRST else (weight, data)
    times = panels if template.order == COLUMNS_FIRST else row_tiles
    moved = once + again * (times if again > cache_bytes else 1)
    shared = panels * task.batch_count if template.order == COLUMNS_FIRST else row_tiles * task.batch_count
    busy_cores = min(cores, panels * row_tiles * task.batch_count)
    uneven = math.ceil(shared / busy_cores) * busy_cores / shared if shared >= busy_cores else 1.0
    return max(computed, moved / _MOVE_BYTES) / busy_cores * min(uneven, 2.0)


def busy_cycles(steps: float, rows: int, vectors: int) -> float:
    """Estimated cycles of a register tile of vectors over `steps` of a reduction: multiply-adds or loads."""
    return steps * max(rows * vectors / _PER_CYCLE, (rows + vectors) / _PER_CYCLE, _LATENCY)


def _of_vectors(task: Contraction, instruction: Instruction) -> Iterator[Template]:
    panels = task.column.extent // instruction.lanes
    steps = task.inner.extent // instruction.step
    unroll = next(u for u in (4, 2, 1) if steps % u == 0)
    for vectors in range(1, MOST_VECTORS + 1):
        if panels % vectors:
            continue
        most = min((instruction.registers - vectors - 1) // vectors, MOST_TILE_ROWS)
        for rows in _row_tiles(task.rows, most, even=instruction.step > 1):
            for order in (COLUMNS_FIRST, ROWS_FIRST):
                yield Template(instruction, rows, vectors, unroll if prod(rows) * vectors <= 16 else 1, order)


def _row_tiles(axes: Sequence[Axis], most: int, even: bool) -> list[tuple[int, ...]]:
    """The largest tiles of at most `most` rows that divide the axes; unless `even`, one with a remainder too.

    TVM replaces no loops by an intrinsic where a condition leaves out a remainder.
    """
    *others, last = axes
    ones = (1,) * len(others)
    found = [(*ones, tile) for tile in _divisors(last.extent, most)]
    if others:
        found += [
            (*ones[:-1], across, tile)
            for tile in _divisors(last.extent, most)
            for across in _divisors(others[-1].extent, most // tile)
            if across > 1 and tile == last.extent
        ]
    elif last.extent > most and not even:
        found.append((math.ceil(last.extent / math.ceil(last.extent / most)),))
    return sorted(set(found), key=lambda tile: -prod(tile))[:3]


def _of_tiles(task: Contraction, instruction: Instruction) -> Iterator[Template]:
    *others, last = task.rows
    panels = task.column.extent // instruction.lanes
    ones = (1,) * len(others)
    if Template(instruction, ones, 1).words(task.inner.extent) == 1:
        return  # a tile has two dimensions
    for rows in _divisors(last.extent, MOST_ROWS)[:2]:
        if rows == 1:
            continue
        across = others[-1].extent if others and rows == last.extent else last.extent // rows
        for row_tiles in range(MOST_ACROSS, 0, -1):
            for vectors in range(MOST_ACROSS, 0, -1):
                if across % row_tiles == 0 and panels % vectors == 0:
                    for order in (COLUMNS_FIRST, ROWS_FIRST):
                        yield Template(instruction, (*ones, rows), vectors, 1, order, row_tiles)


def _divisors(extent: int, most: int) -> list[int]:
    """Divisors of at most `most`, the largest first."""
    return [factor for factor in range(min(extent, most), 0, -1) if extent % factor == 0]
