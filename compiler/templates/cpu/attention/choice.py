"""Blocks of attention, and a closed form of the time that they and separate functions take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product as every

from ....hardware import Hardware
from ....instruction_sets import Instruction
from ....types import data_type
from ..prediction import busy_cycles
from .attention import BlockedAttention, Blocks

_TILE_START, _SUM_START = 20, 2
"""Cycles to begin and end a register tile, and for each of its vectors."""

_EXPONENTIAL = 22
"""Cycles of a vector of scores: the largest one, the exponentials and their sum."""

_ROW_START = 30
"""Cycles of a row in each block."""

_TURNED, _COPIED = 3, 1
"""Cycles of an element of a key that is brought into a panel, and of a value."""

_QUERIES, _KEYS = (24, 48, 96), (64, 128, 256)
"""Queries of a block, rounded to whole register tiles, and keys of a block, rounded to whole panels."""

_SEPARATE_EXPONENTIAL = 24
"""Cycles of a vector of scores in a softmax of its own, without its memory traffic."""

_PASSES = 6
"""Times that separate functions read or write the scores."""

_CACHED, _FAR = 24, 12
"""Bytes a cycle of a core within its second cache, and beyond it."""


def attention_blocks(
    problem: BlockedAttention, instructions: Sequence[Instruction], hardware: Hardware | None, cores: int
) -> list[Blocks]:
    """Blocks that fit the registers, the most promising first; empty without an instruction."""
    vectors = [one for one in instructions if not one.tiles]
    found = {blocks for one in vectors[:1] for blocks in _candidates(problem, one)}
    first = 1 << 15 if hardware is None else hardware.l1_bytes
    return sorted(
        found, key=lambda blocks: (cycles(problem, blocks, first, cores), blocks.queries, blocks.keys)
    )


def _candidates(problem: BlockedAttention, instruction: Instruction) -> Iterator[Blocks]:
    for vectors in (1, 2, 4):
        rows = min(instruction.most_rows(vectors), problem.queries)
        columns = vectors * instruction.lanes
        if vectors > 1 and columns > max(problem.width, instruction.lanes):
            continue
        for queries, keys in every(_QUERIES, _KEYS):
            tiles = min(max(1, round(queries / rows)), problem.queries // rows)
            panels = min(max(1, keys // columns), math.ceil(problem.keys / columns))
            yield Blocks(instruction, rows, vectors, tiles * rows, panels * columns)


def cycles(problem: BlockedAttention, blocks: Blocks, l1_bytes: int, cores: int) -> float:
    """Estimated cycles of the busiest core."""
    instruction = blocks.instruction
    tiles = problem.pairs * math.ceil(problem.queries / blocks.queries)
    seen = _visible(problem)
    blocks_of_keys = math.ceil(seen / blocks.keys)
    panels = math.ceil(seen / blocks.columns)
    lines = blocks.queries // blocks.rows
    sums = blocks.rows * blocks.vectors
    start = _TILE_START + _SUM_START * sums
    depth = problem.width / instruction.step
    scores = panels * lines * (busy_cycles(instruction, depth, blocks.rows, blocks.vectors) + start)
    columns = math.ceil(problem.width / blocks.columns)
    values = (
        columns
        * lines
        * (
            busy_cycles(instruction, seen / instruction.step, blocks.rows, blocks.vectors)
            + blocks_of_keys * start
        )
    )
    # Scores of a block that do not fit the first cache are read from the second one.
    size = 4 * blocks.queries * (blocks.keys + 2 * problem.width)
    beyond = 1.0 if size <= l1_bytes else 1.1
    softmax = blocks.queries * (panels * blocks.vectors * _EXPONENTIAL + blocks_of_keys * _ROW_START)
    packed = problem.pairs * problem.keys * problem.width * (_TURNED + _COPIED) / instruction.step
    return math.ceil(tiles / cores) * (beyond * (scores + values) + softmax) + packed / cores


def symbolic_cycles(problem: BlockedAttention, blocks: Blocks, l1_bytes: int, cores: int) -> float:
    """Estimated cycles of the busiest core, with blocks of a kernel for any size.

    `problem` has one of these sizes. Blocks of a small problem have fewer register tiles and panels.
    """
    lines = math.ceil(min(blocks.queries, problem.queries) / blocks.rows)
    panels = math.ceil(min(blocks.keys, problem.keys) / blocks.columns)
    smaller = replace(blocks, queries=lines * blocks.rows, keys=panels * blocks.columns)
    return cycles(problem, smaller, l1_bytes, cores)


def separate_cycles(problem: BlockedAttention, instruction: Instruction, l2_bytes: int, cores: int) -> float:
    """Estimated cycles of two products, a softmax and transpositions that are functions of their own."""
    rows = instruction.most_rows(2)
    scores = problem.pairs * problem.queries * problem.keys
    tile = rows * 2 * instruction.lanes
    start = _TILE_START + 2 * _SUM_START * rows
    step, element = instruction.step, data_type(instruction.data).bytes
    products = scores / tile * (busy_cycles(instruction, problem.width / step, rows, 2) + start)
    products += (
        problem.pairs
        * problem.queries
        * problem.width
        / tile
        * (busy_cycles(instruction, problem.keys / step, rows, 2) + start)
    )
    rate = _CACHED if element * scores <= l2_bytes * cores else _FAR
    moved = element * scores * _PASSES / rate
    turned = problem.pairs * (problem.queries + problem.keys) * problem.width * _TURNED
    return (products + scores / instruction.lanes * _SEPARATE_EXPONENTIAL + moved + turned) / cores


def _visible(problem: BlockedAttention) -> float:
    """Keys that the mean query sees."""
    if problem.ahead is None:
        return problem.keys
    first, last = (min(max(row + problem.ahead + 1, 1), problem.keys) for row in (0, problem.queries - 1))
    return (first + last) / 2
