"""Whether a candidate's asynchronous copies are right, by its decisions; see `compiler.spaces.async_copies`.

All threads of a block copy a tile of a buffer into shared memory together, in the order of the tile and a
vector of elements at a time. TVM turns a vector into one asynchronous copy of as many bytes. That is right if
the elements are consecutive in global memory, too, and the address is a multiple of the vector's length.

A vector that leaves a row of the tile stays a copy of single elements. It is left out as well: a vector of
one element does the same, and TVM's postprocessor has to unroll the program to see that it is right.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .nest import Nest
from .sketch import Fetch
from .sources import Source

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
