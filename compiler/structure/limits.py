"""Limits of a GPU's thread block, checked on decisions: what TVM's postprocessors reject, without lowering.

`VerifyGPUCode` counts threads, virtual threads, bytes of shared memory and of a vector; `DisallowDynamicLoop`
rejects copies whose size differs from iteration to iteration; `RejectWrongCopies` is in `copies`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .copies import has_sound_copies
from .nest import Nest
from .sketch import Fetch
from .structure import Floats

MAX_VTHREADS = 8
"""Virtual threads of a block. TVM accepts some programs with more, but each one duplicates the loop body."""

WARP = 32
"""Threads of a warp."""


@dataclass(frozen=True)
class GpuLimits:
    """Limits of one thread block."""

    threads: int = 1024
    shared_bytes: int = 49152
    vector_bytes: int = 16
    min_threads: int = WARP
    """Threads of the shapes that ETO's search makes; other candidates follow `Sketch.min_threads`."""


def within_limits(nest: Nest, limits: GpuLimits | None) -> NDArray[np.bool_]:
    """Mask of the candidates within the limits, bool [n]; all True if `limits` is None, as on a CPU.

    Threads and virtual threads are products of the tiles bound to them. Bytes of shared memory are the
    footprints of the cooperative fetches. A software pipeline needs more than one iteration. Sketches without
    a tiling structure choose their threads from a table of legal values and always pass.
    """
    kept = np.ones(len(nest), dtype=np.bool_)
    sketch = nest.sketch
    if limits is None or not sketch.structure:
        return kept
    threads = block_threads(nest)
    kept &= (threads >= sketch.min_threads) & (threads <= limits.threads)
    kept &= bound_extent(nest, "vthread.x") <= MAX_VTHREADS
    kept &= shared_bytes(nest) <= limits.shared_bytes
    if sketch.pipeline_copies > 1 and sketch.fetches:
        kept &= _pipelined_iterations(nest) > 1
    for fetch in sketch.fetches:
        kept &= _has_constant_size(nest, fetch)
        if fetch.vector >= 0:
            kept &= nest.vector(fetch) * sketch.block.reads[fetch.read].element_bytes <= limits.vector_bytes
    return kept & has_sound_copies(nest, limits.vector_bytes)


def block_threads(nest: Nest) -> Floats:
    """Threads of a block; [n]."""
    threads = nest.product([atom.thread.startswith("threadIdx") for atom in nest.sketch.atoms])
    return threads * np.float32(WARP if nest.sketch.in_warps else 1)


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


def bound_extent(nest: Nest, thread: str) -> Floats:
    """Number of threads along a tag such as threadIdx.x, 1 if nothing is bound to it; [n]."""
    return nest.product([atom.thread == thread for atom in nest.sketch.atoms])


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
