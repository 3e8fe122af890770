"""Comparison of a compiled network's outputs with those of the original."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

RELATIVE_TOLERANCE = 1e-4
"""Largest accepted difference over the largest reference output; reordered sums stay far below it."""

ROUNDING_FACTOR = 3.0
"""Largest accepted difference over the reference's own rounding error, where that is known."""


@dataclass(frozen=True)
class OutputCheck:
    """Difference of a compiled network's outputs from the reference."""

    max_abs_difference: float
    """Largest over all elements of all outputs; inf where either is not finite."""
    tolerance: float
    """RELATIVE_TOLERANCE times the largest absolute reference output, or ROUNDING_FACTOR times its rounding
    error where that is more."""

    @property
    def agrees(self) -> bool:
        """True if the difference is within the tolerance."""
        return self.max_abs_difference <= self.tolerance


def compare_outputs(
    reference: Sequence[NDArray[Any]], actual: Sequence[NDArray[Any]], rounding_error: float = 0.0
) -> OutputCheck:
    """Compares outputs in order with `Network.reference_outputs`; raises ValueError if shapes differ.

    `rounding_error` is that of the reference, as `Network.rounding_error` finds it.
    """
    shapes = [array.shape for array in reference], [array.shape for array in actual]
    if shapes[0] != shapes[1]:
        raise ValueError(f"the outputs have shapes {shapes[1]}, expected {shapes[0]}")
    difference = scale = 0.0
    for expected, got in zip(reference, actual, strict=True):
        if expected.size:
            gap = np.abs(got.astype(np.float64) - expected.astype(np.float64))
            difference = max(difference, float(np.where(np.isfinite(gap), gap, np.inf).max()))
            scale = max(scale, float(np.abs(expected.astype(np.float64)).max()))
    return OutputCheck(difference, max(RELATIVE_TOLERANCE * scale, ROUNDING_FACTOR * rounding_error))
