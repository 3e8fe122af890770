"""Templates of chains: how many rows are computed together, and when they stay in cache.

Bolt keeps the first result in registers or in shared memory (section 3.1.1, threadblock residence). On a CPU
an element of it is spread over a vector from memory in any case, so that the counterparts are the first and
the second cache. As in Bolt, a block of rows holds all columns of every result but the last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ....hardware import Hardware
from ....instruction_sets import Instruction
from ..prediction import busy_cycles
from .chain import Chain

MOST_VECTORS, MOST_ROWS = 4, 30
"""Vectors and rows of a register tile."""

MOST_LINES = 512
"""Rows or lines of a block at most, to which a search may change it."""

ASSUMED_CACHES = 1 << 15, 1 << 20
"""Bytes of the caches of a device that is not known."""

_SPILLED = 2.0
"""Cost of a result in the second cache, over that in the first, for each of its elements."""

_ELEMENT_CYCLES = 0.05
"""Cycles to store an element of a result and read it again from the first cache."""


@dataclass(frozen=True)
class ChainTemplate:
    """Parameters of one schedule."""

    instruction: Instruction
    block: int
    """Rows of a matrix, or lines of an image, of the last result that are computed together."""
    tiles: tuple[tuple[int, int], ...]
    """Rows and vectors of the register tile of each stage."""


def rows_read(chain: Chain, block: int) -> list[int]:
    """Lines of each stage's result that `block` lines of the last one take, with the borders that overlap.

    One line for each row if the rows have one axis.
    """
    found = [block]
    for stage in reversed(chain.stages[1:]):
        before = (found[0] - 1) * stage.stride + stage.window
        found.insert(0, before if stage.window > 1 or stage.stride > 1 else found[0])
    return found


def resident_bytes(chain: Chain, block: int) -> int:
    """Bytes of the results, but for the last, that a block of rows keeps, and of padded copies of them."""
    size = 0
    for number, (stage, lines) in enumerate(
        zip(chain.stages[:-1], rows_read(chain, block)[:-1], strict=True)
    ):
        copies = 2 if chain.stages[number + 1].prepared else 1
        size += copies * lines * stage.across * stage.columns * stage.element_bytes
    return size


def chain_templates(
    chain: Chain, instructions: Sequence[Instruction], hardware: Hardware | None, cores: int
) -> list[ChainTemplate]:
    """Templates whose results stay within half of the second cache, the most promising first.

    Empty if the columns are no whole vectors, if the device has no instruction for the data types, or
    where a single row does not fit.
    """
    caches = (hardware.l1_bytes, hardware.l2_bytes) if hardware is not None else ASSUMED_CACHES
    fitting = [i for i in instructions if not i.tiles and (i.step == 1 or not _has_borders(chain))]
    if not fitting:
        return []
    found = [
        template
        for template in _candidates(chain, fitting[0])
        if resident_bytes(chain, template.block) <= caches[1] // 2
    ]
    return sorted(found, key=lambda template: cycles(chain, template, caches[0], cores))


def cycles(chain: Chain, template: ChainTemplate, l1_bytes: int, cores: int) -> float:
    """Estimated cycles: products of all stages, with rows that are computed twice, and traffic of results."""
    last = chain.stages[-1]
    blocks = math.prod(last.rows[: last.blocked]) * math.ceil(last.rows[last.blocked] / template.block)
    size = resident_bytes(chain, template.block)
    total = 0.0
    for stage, (rows, vectors), lines in zip(
        chain.stages, template.tiles, rows_read(chain, template.block), strict=True
    ):
        elements = lines * stage.across * stage.columns
        register_tiles = elements / (rows * vectors * template.instruction.lanes)
        steps = stage.depth / template.instruction.step
        total += register_tiles * busy_cycles(template.instruction, steps, rows, vectors)
        if stage is not last:
            total += elements * _ELEMENT_CYCLES * (1 if size <= l1_bytes // 2 else _SPILLED)
    return total * math.ceil(blocks / min(cores, blocks))


def _has_borders(chain: Chain) -> bool:
    """Whether a stage reads lines beyond its own, some of which do not exist: loops with a condition."""
    return any(stage.contraction is None or stage.window > 1 for stage in chain.stages[1:])


def _candidates(chain: Chain, instruction: Instruction) -> Iterator[ChainTemplate]:
    lanes, step = instruction.lanes, instruction.step
    for stage in chain.stages:
        task = stage.contraction
        if stage.columns % lanes or (task is not None and task.inner.extent % step):
            return
        if task is None and step > 1:
            return
    *_, last = chain.stages
    extent = last.rows[last.blocked]
    for block in range(1, min(extent, MOST_LINES) + 1):
        if extent % block:
            continue
        tiles = []
        for stage, lines in zip(chain.stages, rows_read(chain, block), strict=True):
            innermost = stage.across if stage.blocked < len(stage.rows) - 1 else lines
            tiles.append(register_tile(innermost, stage.columns // lanes, instruction))
        yield ChainTemplate(instruction, block, tuple(tiles))


def register_tile(rows: int, panels: int, instruction: Instruction) -> tuple[int, int]:
    """Rows and vectors of the register tile that takes the fewest cycles for so many rows and vectors."""
    best, found = math.inf, (1, 1)
    for vectors in range(1, MOST_VECTORS + 1):
        if panels % vectors:
            continue
        most = min(instruction.most_rows(vectors), MOST_ROWS, rows)
        for tile in (tile for tile in range(1, most + 1) if rows % tile == 0):
            cost = busy_cycles(instruction, 1, tile, vectors) / (tile * vectors)
            if cost < best or (cost == best and tile * vectors > math.prod(found)):
                best, found = cost, (tile, vectors)
    return found
