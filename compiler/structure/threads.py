"""Threads of a GPU's block, by the tiles that are bound to them."""

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
