"""Comparison of a compiled network's outputs with those of the original."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

RELATIVE_TOLERANCE = 1e-4
"""Largest accepted difference over the largest reference output; reordered sums stay far below it."""

ROUNDING_FACTOR = 3.0
"""Largest accepted difference over the reference's own rounding error, where that is known."""

NARROW_TOLERANCE = {"bfloat16": 2.0**-5, "int8": 2.0**-2}
"""Largest accepted difference of a network in a narrower data type from float32 over the largest reference
output, where the rival's own difference is not known: several roundings of 2^-9 each; in int8 of 2^-9 of an
array's range, which a few large values stretch."""

NARROW_ROUNDING = {"bfloat16": 2.0**-8, "int8": 2.0**-6}
"""Difference of such a network over the largest reference output that is always accepted."""

NARROW_FACTOR = 2.0
"""Largest accepted difference of such a network over that of the rival in the data type."""


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


def compare_narrow_outputs(
    reference: Sequence[NDArray[Any]],
    actual: Sequence[NDArray[Any]],
    rival_difference: float | None,
    dtype: str = "bfloat16",
) -> OutputCheck:
    """Compares outputs of a network in bfloat16 or int8 with `reference`, those in float32.

    The accepted difference is NARROW_FACTOR times that of a rival in the data type, or NARROW_TOLERANCE
    relative to the largest output where that is None or not finite.
    """
    check = compare_outputs(reference, actual)
    scale = max(
        (float(np.abs(array.astype(np.float64)).max(initial=0.0)) for array in reference), default=0.0
    )
    if rival_difference is None or not math.isfinite(rival_difference):
        return OutputCheck(check.max_abs_difference, NARROW_TOLERANCE[dtype] * scale)
    return OutputCheck(
        check.max_abs_difference, max(NARROW_FACTOR * rival_difference, NARROW_ROUNDING[dtype] * scale)
    )
