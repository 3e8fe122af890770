"""Whether a candidate's asynchronous copies are right, by its decisions; see `dataset.async_copies`.

All threads of a block copy a tile of a buffer into shared memory together: element by element in the order of
the tile, a vector of consecutive ones at a time. TVM turns a vector into one asynchronous copy of as many bytes,
which is right if the elements are consecutive in global memory, too, and its address is a multiple of them.
A vector that leaves a row of the tile stays a copy of single elements.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .nest import Nest
from .sketch import Fetch
from .sources import Source


def has_sound_copies(nest: Nest) -> NDArray[np.bool_]:
    """Mask of the candidates whose asynchronous copies TVM compiles to right code, bool [n]."""
    kept = np.ones(len(nest), dtype=np.bool_)
    if nest.sketch.pipeline_copies < 2:  # nothing is asynchronous
        return kept
    for fetch in nest.sketch.fetches:
        if fetch.scope.startswith("shared") and fetch.vector >= 0 and fetch.source is not None:
            kept &= _is_sound(nest, fetch, fetch.source)
    return kept


def _is_sound(nest: Nest, fetch: Fetch, source: Source) -> NDArray[np.bool_]:
    read = nest.sketch.block.reads[fetch.read]
    lanes = nest.vector(fetch)
    extents = nest.shared_extents(fetch)
    aligned = source.offset % lanes == 0
    step = np.zeros(len(nest), dtype=np.int64)  # between elements of the innermost dimension that moves
    run = np.ones(len(nest), dtype=np.float32)  # elements of the tile at this step from each other
    grows = np.ones(len(nest), dtype=np.bool_)
    for dimension in reversed(range(len(extents))):
        extent, own = extents[dimension], source.steps[dimension]
        moves = extent > 1
        step = np.where(moves & (run == 1), own, step)
        follows = moves & grows & (own == step * run)
        run = np.where(follows, run * extent, run)
        grows &= ~moves | follows
        aligned &= ~moves | follows | (own % lanes == 0)
        aligned &= _starts_aligned(nest, fetch, read.indices[dimension], own, lanes)
    # A vector of another step, or from another address, is wrong; one that is no vector in memory is right.
    return (lanes == 1) | (run % lanes != 0) | ((step == 1) & aligned)


def _starts_aligned(
    nest: Nest, fetch: Fetch, terms: object, step: int, lanes: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether the address of a tile's first element in a dimension is a multiple of the vector length; [n]."""
    if not isinstance(terms, tuple):
        return step % lanes == 0
    kept = np.ones(len(nest), dtype=np.bool_)
    tiles = nest.shared_tiles(fetch.level)
    for term in terms:
        for axis, coefficient in term.axes:
            whole = tiles[axis] >= nest.sketch.block.extents[axis]
            moved = step * term.coefficient * (coefficient * tiles[axis] if term.divisor == 1 else 1)
            kept &= whole | (moved % lanes == 0)
    return kept
