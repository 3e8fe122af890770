"""Comparison of a compiled network's outputs with those of the original."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...compiler.types import WIDE, data_type
from ...errors import UserError

RELATIVE_TOLERANCE = data_type(WIDE).tolerances.network
"""Largest accepted difference over the output's largest element; reordered sums differ by far less."""

ROUNDING_FACTOR = 3.0
"""Largest accepted difference over the reference's own rounding error, if the error is known."""

NARROW_FACTOR = 2.0
"""Largest accepted ratio of a narrow network's difference to the rival's in the same data type."""


class OutputFormError(UserError, ValueError):
    """A network returns another number of outputs, or outputs of other shapes."""


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
    output: int = 0
    """Position of the output among those that are compared."""
    index: tuple[int, ...] = ()
    """Position in the output of the first element with this difference."""
    values: tuple[str, str] = ("", "")
    """That element of the reference, and of the compiled network."""

    def describe(self) -> str:
        """The difference in words, such as `output 0 differs by up to 0.5 ...`."""
        of = f"{self.values[1]} instead of {self.values[0]} at {list(self.index)}"
        return (
            f"output {self.output} differs from the original's by up to {self.max_abs_difference:.3g} "
            f"({of}), over the tolerance of {self.tolerance:.3g}"
        )

    @property
    def agrees(self) -> bool:
        """Whether the difference is within the tolerance."""
        return self.max_abs_difference <= self.tolerance


def compare_outputs(
    reference: Sequence[NDArray[Any]], actual: Sequence[NDArray[Any]], rounding_errors: Sequence[float] = ()
) -> OutputCheck:
    """Compares outputs in order with `Network.reference_outputs`; raises OutputFormError if shapes differ.

    The tolerance of an output is the larger of two values: RELATIVE_TOLERANCE times its largest finite
    element, and ROUNDING_FACTOR times its entry in `rounding_errors` (see `Network.rounding_errors`).
    Integers and booleans must be equal.
    """
    pairs = _paired(reference, actual)
    checks = []
    for output, (pair, rounding) in enumerate(zip(pairs, rounding_errors or [0.0] * len(pairs), strict=True)):
        tolerance = max(RELATIVE_TOLERANCE * _scale(pair[0]), ROUNDING_FACTOR * rounding)
        checks.append(_check(output, pair, 0.0 if _is_exact(pair[0]) else tolerance))
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
    for (output, pair), theirs in zip(pairs, rival_differences or [math.inf] * len(pairs), strict=True):
        scale = _scale(pair[0])
        tolerance = accepted.network * scale
        if math.isfinite(theirs):
            tolerance = max(NARROW_FACTOR * theirs, accepted.rounding * scale)
        checks.append(_check(output, pair, tolerance))
    return _worst(checks)


def narrow_differences(reference: Sequence[NDArray[Any]], actual: Sequence[NDArray[Any]]) -> list[float]:
    """Largest difference in each output that `compare_narrow_outputs` compares."""
    return [float(_gaps(*pair).max(initial=0.0)) for _, pair in _narrow_pairs(reference, actual)]


_Pair: TypeAlias = tuple[NDArray[Any], NDArray[Any]]


def _paired(reference: Sequence[NDArray[Any]], actual: Sequence[NDArray[Any]]) -> list[_Pair]:
    shapes = [list(array.shape) for array in reference], [list(array.shape) for array in actual]
    if shapes[0] != shapes[1]:
        raise OutputFormError(f"the outputs have shapes {shapes[1]}, and the original's {shapes[0]}")
    return list(zip(reference, actual, strict=True))


def _narrow_pairs(
    reference: Sequence[NDArray[Any]], actual: Sequence[NDArray[Any]]
) -> list[tuple[int, _Pair]]:
    """Outputs with their positions, without integers and booleans, unless there are no other outputs.

    Integers are often indices of the largest among nearly equal elements, which a narrower type can change.
    """
    pairs = list(enumerate(_paired(reference, actual)))
    return [(output, pair) for output, pair in pairs if not _is_exact(pair[0])] or pairs


def _is_exact(array: NDArray[Any]) -> bool:
    return array.dtype.kind in "biu"


def _scale(array: NDArray[Any]) -> float:
    """Largest finite absolute element, or 0 without one."""
    wide = np.abs(array.astype(np.float64))
    return float(wide.max(initial=0.0, where=np.isfinite(wide)))


def _gaps(expected: NDArray[Any], got: NDArray[Any]) -> NDArray[np.float64]:
    """Absolute difference of each element; inf where one alone is NaN, infinite, or of an exact type."""
    if _is_exact(expected) != _is_exact(got):
        return np.full(expected.shape, math.inf)
    wanted, found = expected.astype(np.float64), got.astype(np.float64)
    with np.errstate(invalid="ignore"):  # infinite elements agree if they are equal
        gap = np.where(wanted == found, 0.0, np.abs(found - wanted))
    gap[np.isnan(wanted) & np.isnan(found)] = 0.0
    return np.where(np.isfinite(gap), gap, np.inf)


def _check(output: int, pair: _Pair, tolerance: float) -> OutputCheck:
    gaps = _gaps(*pair)
    if not gaps.size:
        return OutputCheck(0.0, tolerance, output)
    index = tuple(int(axis) for axis in np.unravel_index(int(gaps.argmax()), gaps.shape))
    values = tuple(f"{array[index]:.6g}" for array in pair)
    return OutputCheck(float(gaps[index]), tolerance, output, index, (values[0], values[1]))


def _worst(checks: Sequence[OutputCheck]) -> OutputCheck:
    return max(
        checks, key=lambda check: (not check.agrees, check.max_abs_difference), default=OutputCheck(0.0, 0.0)
    )
