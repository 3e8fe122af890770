"""Parallel iterations of a program, threads of a GPU's block, and outputs kept in registers."""

from __future__ import annotations

import numpy as np

from .nest import Nest
from .structure import Floats

WARP = 32
"""Threads of a warp."""


def block_threads(nest: Nest) -> Floats:
    """Threads of a block; [n]."""
    threads = nest.product([atom.thread.startswith("threadIdx") for atom in nest.sketch.atoms])
    return threads * np.float32(WARP if nest.sketch.in_warps else 1)


def bound_extent(nest: Nest, thread: str) -> Floats:
    """Number of threads along a tag such as threadIdx.x, 1 if nothing is bound to it; [n]."""
    return nest.product([atom.thread == thread for atom in nest.sketch.atoms])


def parallel_iterations(nest: Nest) -> Floats:
    """Iterations that MetaSchedule runs in parallel on a CPU, or thread blocks on a GPU; [n].

    MetaSchedule fuses spatial loops from the outermost until they exceed the limit, or up to the loop at
    which a consumer reads the output.
    """
    sketch = nest.sketch
    if any(atom.thread for atom in sketch.atoms):
        return bound_extent(nest, "blockIdx.x")
    count = np.ones(len(nest), dtype=np.float32)
    for i, (atom, extent) in enumerate(zip(sketch.atoms, nest.extents, strict=True)):
        if sketch.block.reduction[atom.axis] or (sketch.write_level and i >= sketch.write_level):
            break
        count = np.where(count > sketch.max_parallel, count, count * extent)
    return count


def accumulated_outputs(nest: Nest) -> Floats:
    """Outputs inside the innermost reduction loop, kept in registers if they fit; [n]."""
    reduces = [nest.sketch.block.reduction[atom.axis] for atom in nest.sketch.atoms]
    start = len(reduces) - reduces[::-1].index(True) if True in reduces else len(reduces)
    product: Floats = np.prod(nest.extents[start:], axis=0, dtype=np.float32)
    return product
