"""Comparison of a compiled network's outputs with those of the original."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...compiler.types import WIDE, data_type

RELATIVE_TOLERANCE = data_type(WIDE).tolerances.network
"""Largest accepted difference over the output's largest element; reordered sums differ by far less."""

ROUNDING_FACTOR = 3.0
"""Largest accepted difference over the reference's own rounding error, if the error is known."""

NARROW_FACTOR = 2.0
"""Largest accepted ratio of a narrow network's difference to the rival's in the same data type."""


@dataclass(frozen=True)
class OutputCheck:
    """Difference of a compiled network's outputs from the reference.

    Outputs are compared one at a time. The numbers describe the output with the largest difference. If some
    outputs disagree, only these are considered.
    """

    max_abs_difference: float
    """Largest over all elements of the output. It is inf if an element is NaN, if an element is infinite in
    only one of the two outputs, or if only one of the two holds integers or booleans."""
    tolerance: float
    """Largest accepted difference."""

    @property
    def agrees(self) -> bool:
        """Whether the difference is within the tolerance."""
        return self.max_abs_difference <= self.tolerance


def compare_outputs(
    reference: Sequence[NDArray[Any]], actual: Sequence[NDArray[Any]], rounding_errors: Sequence[float] = ()
) -> OutputCheck:
    """Compares outputs in order with `Network.reference_outputs`; raises ValueError if shapes differ.

    The tolerance of an output is the larger of two values: RELATIVE_TOLERANCE times its largest finite
    element, and ROUNDING_FACTOR times its entry in `rounding_errors` (see `Network.rounding_errors`).
    Integers and booleans must be equal.
    """
    pairs = _paired(reference, actual)
    checks = []
    for (expected, got), rounding in zip(pairs, rounding_errors or [0.0] * len(pairs), strict=True):
        tolerance = max(RELATIVE_TOLERANCE * _scale(expected), ROUNDING_FACTOR * rounding)
        checks.append(OutputCheck(_difference(expected, got), 0.0 if _is_exact(expected) else tolerance))
    return _worst(checks)


def compare_narrow_outputs(
    reference: Sequence[NDArray[Any]],
    actual: Sequence[NDArray[Any]],
    rival_differences: Sequence[float] | None,
    dtype: str = "bfloat16",
) -> OutputCheck:
    """Compares outputs of a network in a narrower data type with `reference`, its float32 outputs.

    The accepted difference is NARROW_FACTOR times a rival's difference in the same data type
    (`narrow_differences`). It is at least the data type's `tolerances.rounding` times the output's largest
    finite element. If the rival's difference is None or not finite, the accepted difference is
    `tolerances.network` times this element.
    """
    accepted = data_type(dtype).tolerances
    pairs = _narrow_pairs(reference, actual)
    checks = []
    for (expected, got), theirs in zip(pairs, rival_differences or [math.inf] * len(pairs), strict=True):
        scale = _scale(expected)
        tolerance = accepted.network * scale
        if math.isfinite(theirs):
            tolerance = max(NARROW_FACTOR * theirs, accepted.rounding * scale)
        checks.append(OutputCheck(_difference(expected, got), tolerance))
    return _worst(checks)


def narrow_differences(reference: Sequence[NDArray[Any]], actual: Sequence[NDArray[Any]]) -> list[float]:
    """Largest difference in each output that `compare_narrow_outputs` compares."""
    return [_difference(*pair) for pair in _narrow_pairs(reference, actual)]


_Pair: TypeAlias = tuple[NDArray[Any], NDArray[Any]]


def _paired(reference: Sequence[NDArray[Any]], actual: Sequence[NDArray[Any]]) -> list[_Pair]:
    shapes = [array.shape for array in reference], [array.shape for array in actual]
    if shapes[0] != shapes[1]:
        raise ValueError(f"the outputs have shapes {shapes[1]}, expected {shapes[0]}")
    return list(zip(reference, actual, strict=True))


def _narrow_pairs(reference: Sequence[NDArray[Any]], actual: Sequence[NDArray[Any]]) -> list[_Pair]:
    """Outputs without integers and booleans, unless there are no other outputs.

    Integers are often indices of the largest among nearly equal elements, which a narrower type can change.
    """
    pairs = _paired(reference, actual)
    return [pair for pair in pairs if not _is_exact(pair[0])] or pairs


def _is_exact(array: NDArray[Any]) -> bool:
    return array.dtype.kind in "biu"


def _scale(array: NDArray[Any]) -> float:
    """Largest finite absolute element, or 0 without one."""
    wide = np.abs(array.astype(np.float64))
    return float(wide.max(initial=0.0, where=np.isfinite(wide)))


def _difference(expected: NDArray[Any], got: NDArray[Any]) -> float:
    if _is_exact(expected) != _is_exact(got):
        return math.inf
    wanted, found = expected.astype(np.float64), got.astype(np.float64)
    with np.errstate(invalid="ignore"):  # infinite elements agree if they are equal
        gap = np.where(wanted == found, 0.0, np.abs(found - wanted))
    return float(np.where(np.isfinite(gap), gap, np.inf).max(initial=0.0))


def _worst(checks: Sequence[OutputCheck]) -> OutputCheck:
    return max(
        checks, key=lambda check: (not check.agrees, check.max_abs_difference), default=OutputCheck(0.0, 0.0)
    )
