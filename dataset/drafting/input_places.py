"""Where the inputs of a nest that are computed on the way are computed, such as a padded image."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from .nest import Nest
from .sketch import AT_ROOT, INLINED


class InputPlace(IntEnum):
    """Where a nest's inputs are computed, outermost first."""

    BEFORE = 0
    """In full before the nest."""
    AROUND = 1
    """Within the nest, around its reduction: as many of them as one output tile needs."""
    WITHIN = 2
    """Within the reduction: a few at a time, which stay in registers and are computed more than once."""


def input_places(nest: Nest) -> NDArray[np.int64]:
    """The `InputPlace` of each candidate, int64 [n]: of several inputs, of the outermost.

    A nest none of whose inputs is computed on the way reads them where it needs them: WITHIN.
    """
    sketch = nest.sketch
    reduces = np.array([sketch.block.reduction[atom.axis] for atom in sketch.atoms])
    steps = np.where(reduces[:, None], nest.extents, np.float32(1))
    # By level: whether it lies within a loop over the reduction, [n_levels, n].
    reduced = np.cumprod(np.concatenate([np.ones((1, len(nest)), steps.dtype), steps]), axis=0) > 1
    found = np.full(len(nest), InputPlace.WITHIN, dtype=np.int64)
    for _, number in sketch.producers:
        at = nest.values[:, sketch.decisions[number].column]
        within = reduced[nest.location_level(number), np.arange(len(nest))] | (at == INLINED)
        place = np.where(within, InputPlace.WITHIN, InputPlace.AROUND)
        found = np.minimum(found, np.where(at == AT_ROOT, InputPlace.BEFORE, place))
    return found
