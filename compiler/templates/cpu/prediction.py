"""Closed form of a template's time: by costs of server CPUs, or by costs that the light profiler measured."""

from __future__ import annotations

import math
from math import prod

from ...instruction_sets import Instruction
from ...types import data_type
from .contraction import Contraction
from .profile.sample_kernels import RegisterTile
from .profile.tile_profile import TileProfile
from .template import COLUMNS_FIRST, MOST_ROWS, Template

LATENCY = 5
"""Cycles until a multiply-add of vectors can add to its result again."""

PER_CYCLE = 2
"""Multiply-adds and loads of vectors in a cycle, as server CPUs have them."""

_TILE_START, _ROW_START = 60, 4
"""Cycles to begin and end a register tile, and for each of its vectors, in which nothing is multiplied."""

_LINE_BYTES, _WAY_BYTES = 64, 4096
"""Bytes of a line of the first cache, and of one of its ways."""

_PLACES = _WAY_BYTES // _LINE_BYTES

_LOST_LINE = 2.5
"""Cycles of a line that has to come from the second cache again."""

_TILE_LOAD, _MOVE_BYTES = 8, 16
"""Cycles of loading a tile of AMX, and bytes a cycle from beyond the second cache."""


def cycles(task: Contraction, template: Template, cache_bytes: int, cores: int) -> float:
    """Estimated cycles of a template: multiply-adds or loads, whichever take longer, and memory traffic."""
    instruction = template.instruction
    steps = task.depth / instruction.step
    panels, row_tiles = _across(task, template)
    tiles = task.batch_count * row_tiles * panels
    if instruction.tiles:
        words = template.words(task.in_tiles(instruction.step).inner.extent)
        multiplied = template.row_tiles * template.vectors * max(template.rows, 8)
        loaded = _TILE_LOAD * (
            template.row_tiles * template.rows / MOST_ROWS + template.vectors * words / MOST_ROWS
        )
        busy = steps / words * max(multiplied, loaded)
        stored = template.row_tiles * template.vectors * template.rows
    else:
        sums = template.rows * template.vectors
        busy = busy_cycles(instruction, steps, template.rows, template.vectors)
        stored = sums
    computed = tiles * (busy + _TILE_START + _ROW_START * stored)
    element = data_type(instruction.weight).bytes
    sizes = task.row_count, task.column.extent
    data, weight = (task.batch_count * task.depth * element * size for size in sizes)
    # The inner loop's operand is read in each iteration of the outer one, unless it stays in cache.
    again, once = (data, weight) if template.order == COLUMNS_FIRST else (weight, data)
    times = panels if template.order == COLUMNS_FIRST else row_tiles
    moved = once + again * (times if again > cache_bytes else 1)
    return max(computed, moved / _MOVE_BYTES) * _share_of_a_core(task, template, cores)


def busy_cycles(instruction: Instruction, steps: float, rows: int, vectors: int) -> float:
    """Estimated cycles of a register tile of vectors over `steps` of a reduction: multiply-adds or loads."""
    return steps * max(instruction.work(rows, vectors) / PER_CYCLE, (rows + vectors) / PER_CYCLE, LATENCY)


def predicted_s(
    task: Contraction, template: Template, profile: TileProfile, caches: tuple[int, int], cores: int
) -> float:
    """Predicted seconds of a template by the measured costs of its register tile.

    `caches` are the bytes of a core's first and second cache. The inner loop reads one operand whole for each
    tile of the outer one; data that the inner loop reads again stays in the cache that holds it.
    """
    instruction = template.instruction
    tile = RegisterTile(instruction, template.rows, template.vectors, template.row_tiles)
    cost = profile.cost(tile)
    steps = task.depth / instruction.step
    if instruction.tiles:
        steps /= template.words(task.in_tiles(instruction.step).inner.extent)
    panels, row_tiles = _across(task, template)
    data, weight = steps * tile.data_bytes, steps * tile.weight_bytes
    by_columns = template.order == COLUMNS_FIRST
    kept, streamed = (weight, data) if by_columns else (data, weight)
    whole = streamed * (row_tiles if by_columns else panels)
    share = streamed / (streamed + kept)
    first, second = caches
    step_s = _between(kept + streamed, first, cost.near_s, cost.second_s) * (1 - share)
    if whole + kept <= second:
        step_s += share * (cost.near_s if whole + kept <= first else cost.second_s)
    else:
        step_s += share * cost.far_s
    tiles = task.batch_count * row_tiles * panels
    return tiles * (cost.start_s + steps * step_s) * _share_of_a_core(task, template, cores)


def collision_factor(task: Contraction, template: Template, first_bytes: int) -> float:
    """Factor by which a template takes longer because of `collisions` of its rows."""
    if template.instruction.tiles or not task.rows:
        return 1.0
    pitch = task.rows[-1].stride * task.inner.extent * 4 // template.instruction.step
    # The rows of an image are whole pitches apart, too.
    return collisions(pitch, prod(template.row_tile), template.vectors, first_bytes)


def collisions(pitch_bytes: int, rows: int, vectors: int, first_bytes: int) -> float:
    """Factor by which a tile of vectors takes longer whose rows push each other out of the first cache.

    A row's line of the data is read again in each step, and lines whose addresses differ by a multiple of
    `_WAY_BYTES` share one place in each way of the cache. Measured in float32 on Zen 4, whose first cache has
    eight ways: tiles of 13 rows and 2 vectors take 1.2 times as long, of 14 rows and 1 vector 1.7 times, of
    16 rows and 1 vector 2.1 times, of 28 rows and 1 vector 5 times.
    """
    lines, rest = divmod(pitch_bytes, _LINE_BYTES)
    places = _PLACES if rest else _PLACES // math.gcd(_PLACES, lines)
    ways = first_bytes / _WAY_BYTES
    lost = max(0.0, 1 - ways / math.ceil(rows / places)) ** 2
    return 1 + _LOST_LINE * PER_CYCLE * lost / vectors


def _between(size: float, cache: int, inside: float, outside: float) -> float:
    return inside if size <= cache else outside


def _across(task: Contraction, template: Template) -> tuple[int, float]:
    """Register tiles along the columns, and along the rows."""
    panels = math.ceil(task.column.extent / template.columns)
    row_tiles = prod(
        math.ceil(axis.extent / tile) for axis, tile in zip(task.rows, template.row_tile, strict=True)
    )
    return panels, row_tiles / template.row_tiles


def _share_of_a_core(task: Contraction, template: Template, cores: int) -> float:
    """Share of all register tiles that the busiest core computes."""
    panels, row_tiles = _across(task, template)
    shared = (panels if template.order == COLUMNS_FIRST else row_tiles) * task.batch_count
    busy_cores = min(cores, panels * row_tiles * task.batch_count)
    uneven = math.ceil(shared / busy_cores) * busy_cores / shared if shared >= busy_cores else 1.0
    return min(uneven, 2.0) / busy_cores
