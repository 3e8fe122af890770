"""Limits of a GPU's thread block, checked on decisions: what TVM's postprocessors reject, without lowering.

`VerifyGPUCode` counts threads, virtual threads, bytes of shared memory and of a vector; `DisallowDynamicLoop`
rejects copies whose size differs from iteration to iteration. `RejectWrongCopies`, of
`compiler.spaces.async_copies`, rejects asynchronous copies that TVM compiles to wrong code. TVM accepts
programs of any code size and any number of registers; they compile slowly or run slowly.

All threads of a block copy a tile of a buffer into shared memory together, in the order of the tile and a
vector of elements at a time. TVM turns a vector into one asynchronous copy of as many bytes. That is right if
the elements are consecutive in global memory, too, and the address is a multiple of the vector's length. A
vector that leaves a row of the tile stays a copy of single elements. It is left out as well: a vector of one
element does the same, and TVM's postprocessor has to unroll the program to see that it is right.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .nest import Nest
from .parallelism import WARP, block_threads, bound_extent
from .sketch import Fetch, Sketch
from .sources import Source
from .structure import Floats

MAX_VTHREADS = 8
"""Virtual threads of a block. TVM accepts some programs with more, but each one duplicates the loop body."""

MAX_CODE = 768
"""Statements of a drawn program at most. A program that is adapted from another one has no such limit.

Over 136 drawn programs, the estimate has a Spearman correlation of 0.86 with the length of the CUDA text, and
this limit drops 3 % of the programs within the other limits with 17 % of their text. Of the measured programs
of `data/gpu` and `data/gpu-networks` it drops 2 %, the fastest one of 1 task in 108.
"""

MAX_REGISTERS = 255
"""Registers that a thread of an NVIDIA GPU can address.

This limit drops 22 % of the same programs. On average they run at 5 % of their task's best speed, and
none is the fastest.
"""

THREADS, VIRTUAL_THREADS, SHARED_MEMORY = "threads", "virtual threads", "shared memory"
CODE_SIZE, REGISTERS, COPIES = "code size", "registers", "copies"
"""Causes of a row outside the limits."""


@dataclass(frozen=True)
class GpuLimits:
    """Limits of one thread block."""

    threads: int = 1024
    shared_bytes: int = 49152
    vector_bytes: int = 16
    registers: int = 65536
    """Of all threads of a block together."""
    code: int | None = None
    """Statements of a program, estimated by `unrolled_statements`; None for no limit."""
    min_threads: int = WARP
    """Threads of the shapes that ETO's search makes; other candidates follow `Sketch.min_threads`."""


def within_limits(
    nest: Nest, limits: GpuLimits | None, dropped: Counter[str] | None = None
) -> NDArray[np.bool_]:
    """Mask of the candidates within the limits, bool [n]; all True if `limits` is None, as on a CPU.

    Sketches without a tiling structure choose their threads from a table of legal values and always pass.
    `dropped` counts the other candidates, each by the first limit that it exceeds.
    """
    kept = np.ones(len(nest), dtype=np.bool_)
    if limits is None or not nest.sketch.structure:
        return kept
    for cause, within in _checks(nest, limits):
        if dropped is not None:
            dropped[cause] += int((kept & ~within).sum())
        kept &= within
    return kept


def _checks(nest: Nest, limits: GpuLimits) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Mask of the candidates within each limit, bool [n], with the cause of the others.

    Threads and virtual threads are products of the tiles bound to them. Bytes of shared memory are the
    footprints of the cooperative fetches. A software pipeline needs more than one iteration.
    """
    sketch, threads = nest.sketch, block_threads(nest)
    yield THREADS, (threads >= sketch.min_threads) & (threads <= limits.threads)
    yield VIRTUAL_THREADS, bound_extent(nest, "vthread.x") <= MAX_VTHREADS
    yield SHARED_MEMORY, shared_bytes(nest) <= limits.shared_bytes
    if sketch.pipeline_copies > 1 and sketch.fetches:
        yield COPIES, _pipelined_iterations(nest) > 1
    for fetch in sketch.fetches:
        yield COPIES, _has_constant_size(nest, fetch)
        if fetch.vector >= 0:
            vector_bytes = nest.vector(fetch) * sketch.block.reads[fetch.read].element_bytes
            yield COPIES, vector_bytes <= limits.vector_bytes
    yield COPIES, has_sound_copies(nest, limits.vector_bytes)
    yield REGISTERS, least_registers(nest) <= np.minimum(MAX_REGISTERS, limits.registers // threads)
    if limits.code is not None:
        yield CODE_SIZE, unrolled_statements(nest) <= limits.code


def _has_constant_size(nest: Nest, fetch: Fetch) -> NDArray[np.bool_]:
    """Whether a copy has as many elements in each iteration; [n].

    The quotients of a tile's indices by a divisor, as of grouped channels, are as many in each tile if the
    tile divides the divisor or is a multiple of it.
    """
    kept = np.ones(len(nest), dtype=np.bool_)
    tiles = nest.shared_tiles(fetch.level)
    for terms in nest.sketch.block.reads[fetch.read].indices:
        for term in terms or ():
            for axis, coefficient in term.axes if term.divisor > 1 else ():
                tile = tiles[axis] * coefficient
                kept &= (tile % term.divisor == 0) | (term.divisor % tile == 0)
    return kept


def _pipelined_iterations(nest: Nest) -> Floats:
    """Iterations of the reduction loops outside of the fetches; TVM pipelines two or more; [n]."""
    level = max(fetch.level for fetch in nest.sketch.fetches)
    reduction = nest.sketch.block.reduction
    return nest.product([i < level and reduction[a.axis] for i, a in enumerate(nest.sketch.atoms)])


def shared_bytes(nest: Nest) -> Floats:
    """Bytes of shared memory of a thread block, including the copies of a software pipeline; [n].

    An output that is collected there takes the place of the inputs.
    """
    sketch = nest.sketch
    total = np.zeros(len(nest), dtype=np.float32)
    for fetch in sketch.fetches:
        if fetch.scope.startswith("shared"):
            total += sketch.pipeline_copies * nest.shared_footprint(fetch)
    return np.maximum(total, _output_bytes(nest)) if sketch.output else total


def _output_bytes(nest: Nest) -> Floats:
    """Bytes of the output that threads collect in shared memory: a row of tiles of each at a time; [n]."""
    sketch = nest.sketch
    rows = sketch.block.writes[0].indices[-2]
    row_axis = rows[0].axes[0][0] if rows else -1
    inside = [
        i >= sketch.write_level
        and not sketch.block.reduction[atom.axis]
        and (atom.axis != row_axis or atom.column < 0 or bool(atom.thread))
        for i, atom in enumerate(sketch.atoms)
    ]
    return nest.product(inside) * np.float32(sketch.block.writes[0].element_bytes)


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


INDEX_BYTES = 4
"""Bytes of an index in a kernel."""


def has_sound_copies(nest: Nest, vector_bytes: int) -> NDArray[np.bool_]:
    """Mask of the candidates whose copies into shared memory TVM compiles, and to right code, bool [n].

    Indices of elements that are not consecutive are a vector themselves, which has a limit as well.
    """
    kept = np.ones(len(nest), dtype=np.bool_)
    for fetch in nest.sketch.fetches:
        if fetch.scope.startswith("shared") and fetch.vector >= 0 and fetch.source is not None:
            lanes = nest.vector(fetch)
            is_regular, step, aligned = _vectors(nest, fetch, fetch.source)
            kept &= (lanes * INDEX_BYTES <= vector_bytes) | (is_regular & (step == 1))
            if nest.sketch.pipeline_copies > 1:  # copies are asynchronous
                kept &= (lanes == 1) | (is_regular & (step == 1) & aligned)
    output = nest.sketch.output
    if output is not None and output.vector >= 0 and output.source is not None:
        (step_, size), *others = output.source.steps[-1]
        lanes = nest.vector(output)
        is_whole = np.ones(len(nest), np.bool_) if not others else size % lanes == 0
        kept &= (lanes * INDEX_BYTES <= vector_bytes) | (is_whole & (step_ == 1))
    return kept


def _vectors(
    nest: Nest, fetch: Fetch, source: Source
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.bool_]]:
    """Whether a fetch's vectors have a step, which, and whether their addresses are aligned; each [n]."""
    lanes = nest.vector(fetch)
    extents = nest.shared_extents(fetch)
    aligned = source.offset % lanes == 0
    is_whole = np.ones(len(nest), dtype=np.bool_)
    step = np.zeros(len(nest), dtype=np.int64)  # between elements of the innermost dimension that moves
    run = np.ones(len(nest), dtype=np.float32)  # elements of the tile at this step from each other
    grows = np.ones(len(nest), dtype=np.bool_)
    for dimension in reversed(range(len(extents))):
        extent, (innermost, *others) = extents[dimension], source.steps[dimension]
        own, moves = innermost[0], extent > 1
        is_innermost = moves & (run == 1)
        step = np.where(is_innermost, own, step)
        follows = moves & grows & (own == step * run)
        run = np.where(follows, run * extent, run)
        grows &= ~moves | (follows & (not others))
        if others:
            is_whole &= ~is_innermost | (innermost[1] % lanes == 0)
            aligned &= np.logical_and.reduce(
                [each % lanes == 0 for each, size in others if size > 1] or [True]
            )
        aligned &= ~moves | follows | (own % lanes == 0)
        aligned &= _starts_aligned(nest, fetch, dimension, own, lanes)
    return is_whole & (run % lanes == 0), step, aligned


def _starts_aligned(
    nest: Nest, fetch: Fetch, dimension: int, step: int, lanes: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether the address of a tile's first element is aligned as far as a dimension decides it; [n]."""
    terms = nest.sketch.block.reads[fetch.read].indices[dimension]
    if terms is None:
        return step % lanes == 0
    kept = np.ones(len(nest), dtype=np.bool_)
    tiles = nest.shared_tiles(fetch.level)
    for term in terms:
        for axis, coefficient in term.axes:
            whole = tiles[axis] >= nest.sketch.block.extents[axis]
            moved = step * term.coefficient * (coefficient * tiles[axis] if term.divisor == 1 else 1)
            kept &= whole | (moved % lanes == 0)
    return kept
