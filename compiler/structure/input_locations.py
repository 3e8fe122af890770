"""Compute locations of the producers of a block's inputs, such as the padding of an image."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from .nest import Nest
from .sketch import AT_ROOT, INLINED


class InputLocation(IntEnum):
    """Compute location of a block's inputs, outermost first."""

    ROOT = 0
    """At the root: the whole input before the loop nest."""
    OUTSIDE_REDUCTION = 1
    """In the nest, outside of its reduction loops: the part that one output tile needs."""
    INSIDE_REDUCTION = 2
    """In the reduction loops or inlined: a few elements at a time, recomputed but kept in registers."""


def input_locations(nest: Nest) -> NDArray[np.int64]:
    """`InputLocation` of each candidate, int64 [n]; of several inputs, the outermost location.

    Candidates without a producer count as INSIDE_REDUCTION, as they read inputs where they use them.
    """
    sketch = nest.sketch
    reduces = np.array([sketch.block.reduction[atom.axis] for atom in sketch.atoms])
    steps = np.where(reduces[:, None], nest.extents, np.float32(1))
    # [n_levels, n]: whether a level lies inside a reduction loop of several iterations.
    reduced = np.cumprod(np.concatenate([np.ones((1, len(nest)), steps.dtype), steps]), axis=0) > 1
    found = np.full(len(nest), InputLocation.INSIDE_REDUCTION, dtype=np.int64)
    for _, number in sketch.producers:
        at = nest.values[:, sketch.decisions[number].column]
        within = reduced[nest.location_level(number), np.arange(len(nest))] | (at == INLINED)
        location = np.where(within, InputLocation.INSIDE_REDUCTION, InputLocation.OUTSIDE_REDUCTION)
        found = np.minimum(found, np.where(at == AT_ROOT, InputLocation.ROOT, location))
    return found
