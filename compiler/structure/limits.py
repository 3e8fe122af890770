"""Limits of a GPU's thread block, checked on decisions: what TVM's postprocessors reject, without lowering.

`VerifyGPUCode` counts threads, virtual threads, bytes of shared memory and of a vector; `DisallowDynamicLoop`
rejects copies whose size differs from iteration to iteration; `RejectWrongCopies` is in `copies`. TVM accepts
programs of any code size and any number of registers; they compile slowly or run slowly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .code_estimates import least_registers, unrolled_statements
from .copies import has_sound_copies
from .nest import Nest
from .parallelism import WARP, block_threads, bound_extent
from .sketch import Fetch
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
