"""Limits of a GPU's thread block, checked on tile sizes: MetaSchedule's VerifyGPUCode without lowering."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .nest import Nest
from .structure import Floats

MAX_VTHREADS = 8
"""Virtual threads of a block. TVM accepts some programs with more, but each one duplicates the loop body."""


@dataclass(frozen=True)
class GpuLimits:
    """Limits of one thread block."""

    threads: int = 1024
    shared_bytes: int = 49152
    vector_bytes: int = 16
    min_threads: int = 32  # MetaSchedule's sketches ask for at least a warp


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
    threads = bound_extent(nest, "threadIdx.x")
    kept &= (threads >= limits.min_threads) & (threads <= limits.threads)
    kept &= bound_extent(nest, "vthread.x") <= MAX_VTHREADS
    kept &= shared_bytes(nest) <= limits.shared_bytes
    if sketch.pipeline_copies > 1 and sketch.fetches:
        kept &= _pipelined_iterations(nest) > 1
    for fetch in sketch.fetches:
        if fetch.vector >= 0:
            decision = sketch.decisions[fetch.vector]
            lanes = np.array(decision.values)[nest.values[:, decision.column]]
            kept &= lanes * sketch.block.reads[fetch.read].element_bytes <= limits.vector_bytes
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
    """Bytes of shared memory of a thread block, including the copies of a software pipeline; [n]."""
    total = np.zeros(len(nest), dtype=np.float32)
    copies = np.float32(nest.sketch.pipeline_copies)
    for fetch in nest.sketch.fetches:
        if fetch.scope.startswith("shared"):
            read = nest.sketch.block.reads[fetch.read]
            total += copies * nest.shared_footprint(read, fetch.level)
    return total
