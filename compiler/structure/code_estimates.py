"""Estimates of a CUDA program's code size and registers, from rows of decisions and without lowering."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from .nest import Nest
from .parallelism import WARP, block_threads, bound_extent
from .sketch import Sketch
from .structure import Floats

REGISTER_BYTES = 4


def unrolled_statements(nest: Nest) -> Floats:
    """Estimated number of statements of a program after TVM unrolls its loops; [n].

    Each virtual thread has its own copy of a statement that computes. TVM unrolls loops from the innermost on
    while the stores inside do not exceed the unroll step, and no loop around one that remains. Cooperative
    fetches count at their loops. The loops that set the outputs of a thread to zero count, too. A tensor
    instruction is one statement.
    """
    sketch, step = nest.sketch, nest.unroll_step()
    virtual_threads = bound_extent(nest, "vthread.x")
    fetched: defaultdict[int, list[Floats]] = defaultdict(list)
    for fetch in sketch.fetches:
        if fetch.scope.startswith("shared"):
            elements = np.prod(nest.shared_extents(fetch), axis=0, dtype=np.float32)
            fetched[fetch.level].append(np.ceil(elements / block_threads(nest) / nest.vector(fetch)))
    stores, statements = virtual_threads, virtual_threads
    unrolls = np.ones(len(nest), dtype=np.bool_)
    for level in range(len(sketch.atoms) - 1, -1, -1):
        for copies in fetched[level + 1]:
            fits = copies <= step
            stores, statements = stores + copies, statements + np.where(fits, copies, 1)
            unrolls &= fits
        if not (sketch.atoms[level].thread or _is_in_instruction(sketch, level)):
            extent = nest.extents[level]
            unrolls &= (extent == 1) | (stores * extent <= step)
            repeated = np.where(unrolls, extent, 1)
            stores, statements = stores * repeated, statements * repeated
    zeroed = nest.product(
        [inside and not _is_in_instruction(sketch, i) for i, inside in enumerate(_outputs_inside(sketch))]
    )
    found: Floats = statements + np.where(zeroed <= step, zeroed, virtual_threads)
    return found


def _is_in_instruction(sketch: Sketch, level: int) -> bool:
    """Whether an atom is a dimension of the sketch's tensor instruction."""
    return sketch.in_warps and all(atom.column < 0 and not atom.thread for atom in sketch.atoms[level:])


def _outputs_inside(sketch: Sketch) -> list[bool]:
    """Atoms over the outputs of one thread, those of its virtual threads included, or of one warp."""
    return [
        not sketch.block.reduction[atom.axis] and not atom.thread.startswith(("blockIdx", "threadIdx"))
        for atom in sketch.atoms
    ]


def least_registers(nest: Nest) -> Floats:
    """Registers of 32 bits that a thread needs at least, 0 for a sketch without sums in local memory; [n].

    A thread holds its sums through the whole reduction, and an operand of each input. If the hardware has
    fewer registers, some of the sums are in memory.
    """
    sketch = nest.sketch
    if not sketch.cached_write:
        return np.zeros(len(nest), dtype=np.float32)
    (output,) = sketch.block.writes
    held = output.element_bytes / REGISTER_BYTES / (WARP if sketch.in_warps else 1)
    operands = len({read.buffer for read in sketch.block.reads} - {output.buffer})
    return nest.product(_outputs_inside(sketch)) * np.float32(held) + np.float32(operands)
