"""Templates worth trying for a contraction: tens by rules of the architecture, ranked by a closed form.

Bolt's light-weight profiler (section 3.2.2) takes the parameters that suit the hardware and measures only
those. The rules are its guidelines for a CPU: the largest register tiles that the registers hold, since they
read the least for each multiply-add; enough tiles for all cores; and whole vectors. With a profile of the
machine the closed form (`prediction.py`) has measured costs; without one it has those of server CPUs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from math import prod

from ...hardware import Hardware
from ...instruction_sets import Instruction
from .contraction import Contraction
from .intrinsics.tile_intrinsics import MOST_ACROSS
from .prediction import collision_factor, cycles, predicted_s
from .profile.tile_profile import TileProfile
from .template import COLUMNS_FIRST, MOST_ROWS, ROWS_FIRST, Template, divisors, panels

MOST_VECTORS = 4
"""Vectors of a register tile along the columns."""

MOST_TILE_ROWS = 30
"""Rows of a register tile of vectors."""

MOST_FILLED = 1 / 16
"""Rows that a schedule fills up, at most, over all rows."""


def candidates(task: Contraction, instruction: Instruction) -> list[Template]:
    """Templates of one instruction that fit the contraction and the registers; empty if none does.

    The depth must be whole steps of the instruction, and columns whole vectors if a step is more than one,
    unless a schedule with vectors can fill them up.
    """
    if instruction.tiles:
        task = task.in_tiles(instruction.step)
    elif task.fills_columns:
        return list(_vector_templates(task, instruction))
    if task.inner.extent % instruction.step or (
        task.column.extent % instruction.lanes and instruction.step > 1
    ):
        return []
    return list(
        _tile_templates(task, instruction) if instruction.tiles else _vector_templates(task, instruction)
    )


def ranked(
    task: Contraction,
    instructions: Sequence[Instruction],
    hardware: Hardware | None,
    cores: int,
    profile: TileProfile | None = None,
) -> list[tuple[Template, float]]:
    """Templates of all instructions with their estimate, the fastest first.

    The estimate is seconds with a profile, and cycles without one.
    """
    every = [template for instruction in instructions for template in candidates(task, instruction)]
    caches = (hardware.l1_bytes, hardware.l2_bytes) if hardware is not None else (1 << 15, 1 << 20)
    if profile is None:
        estimates = [cycles(task, template, caches[1], cores) for template in every]
    else:
        estimates = [predicted_s(task, template, profile, caches, cores) for template in every]
    scaled = [
        (template, estimate * collision_factor(task, template, caches[0]))
        for template, estimate in zip(every, estimates, strict=True)
    ]
    return sorted(scaled, key=lambda pair: pair[1])


def _vector_templates(task: Contraction, instruction: Instruction) -> Iterator[Template]:
    steps = math.ceil(task.inner.extent / instruction.step)
    unroll = next(u for u in (4, 2, 1) if steps % u == 0)
    for vectors, ragged in _panels(task, instruction):
        most = min(instruction.most_rows(vectors), MOST_TILE_ROWS)
        for rows in _row_tiles(task, most, even=instruction.step > 1):
            for order in (COLUMNS_FIRST, ROWS_FIRST):
                again = unroll if prod(rows) * vectors <= 16 and not instruction.widens else 1
                yield Template(instruction, rows, vectors, again, order, ragged=ragged)


def _panels(task: Contraction, instruction: Instruction) -> list[tuple[int, int]]:
    """Panels of the columns, see `panels`; and of all widths if a schedule fills the last one up."""
    columns, lanes = task.column.extent, instruction.lanes
    if columns % lanes == 0:
        return panels(columns, lanes, MOST_VECTORS)
    ragged = panels(columns, lanes, MOST_VECTORS) if instruction.step == 1 else []
    whole = range(1, min(MOST_VECTORS, math.ceil(columns / lanes)) + 1) if task.fills_columns else ()
    return ragged + [(vectors, 0) for vectors in whole]


def _row_tiles(task: Contraction, most: int, even: bool) -> list[tuple[int, ...]]:
    """The largest tiles of at most `most` rows that divide the axes, and two with a remainder.

    TVM replaces no loops by an intrinsic if a condition leaves out a remainder: if `even`, there are tiles
    with a remainder only if a schedule can fill it up. An image has them where all others are small.
    """
    *others, last = task.rows
    ones = (1,) * len(others)
    whole = divisors(last.extent, most)[::-1]
    found = [(*ones, tile) for tile in whole]
    in_a_plane = any(axis.extent > 1 for axis in others)
    if in_a_plane and last.extent <= most:
        found += [
            (*ones[:-1], across, last.extent)
            for across in divisors(others[-1].extent, most // last.extent)[::-1]
            if across > 1
        ]
    if last.extent > most and (task.fills_rows or not even) and not (in_a_plane and 2 * whole[0] > most):
        longest = last.extent * MOST_FILLED if even else last.extent
        lacking = {tile: -last.extent % tile for tile in range(most, 1, -1)}
        found += [(*ones, tile) for tile, rows in lacking.items() if 0 < rows <= longest][:2]
    return sorted(set(found), key=lambda tile: -prod(tile))[:3]


def _tile_templates(task: Contraction, instruction: Instruction) -> Iterator[Template]:
    *others, last = task.rows
    panels = task.column.extent // instruction.lanes
    ones = (1,) * len(others)
    if Template(instruction, ones, 1).words(task.inner.extent) == 1:
        return  # a tile has two dimensions
    for rows in divisors(last.extent, MOST_ROWS)[:-3:-1]:
        if rows == 1:
            continue
        across = others[-1].extent if others and rows == last.extent else last.extent // rows
        for row_tiles in range(MOST_ACROSS, 0, -1):
            for vectors in range(MOST_ACROSS, 0, -1):
                if across % row_tiles == 0 and panels % vectors == 0:
                    for order in (COLUMNS_FIRST, ROWS_FIRST):
                        yield Template(instruction, (*ones, rows), vectors, 1, order, row_tiles)
