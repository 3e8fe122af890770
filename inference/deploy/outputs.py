"""Comparison of a compiled network's outputs with those of the original."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...compiler.types import WIDE, data_type, known_type
from ...errors import UserError

ROUNDING_FACTOR = 3.0
"""Largest accepted difference over the reference's own rounding error, if the error is known."""

NARROW_FACTOR = 2.0
"""Largest accepted ratio of a narrow network's difference to the rival's in the same data type."""

_APART = 100.0
"""A repeated largest element that exceeds all others by this factor is a filling, as of a mask."""

_SLICE_ELEMENTS = 16
"""Least elements of a slice with a tolerance of its own."""

_LEAST_SLICE = 1e-2
"""Least scale of a slice over that of its output: float32 rounds sums to 1e-7 of the largest element."""


class OutputFormError(UserError, ValueError):
    """A network returns another number of outputs, or outputs of other shapes or data types."""


@dataclass(frozen=True)
class OutputCheck:
    """Difference of a compiled network's outputs from the reference.

    Outputs are compared one at a time. The numbers describe the output with the largest difference. If some
    outputs disagree, only these are considered.
    """

    max_abs_difference: float
    """Of the element that exceeds its tolerance most, or comes nearest to it. It is inf if an element is NaN
    or infinite in only one of the two outputs, or if only one of the two holds integers or booleans."""
    tolerance: float
    """Largest accepted difference of this element."""
    output: int = 0
    """Position of the output among those that are compared."""
    index: tuple[int, ...] = ()
    """Position of the element in the output."""
    values: tuple[str, str] = ("", "")
    """That element of the reference, and of the compiled network."""
    inputs: str = ""
    """Name of the inputs; empty for the example inputs."""

    def describe(self, names: Sequence[str] = ()) -> str:
        """The difference in words, such as `output 0 differs by up to 0.5 ...`; `names` are the outputs'."""
        name = f" ({names[self.output]})" if self.output < len(names) else ""
        on = f", on {self.inputs}" if self.inputs else ""
        place = f"({self.values[1]} instead of {self.values[0]} at {list(self.index)}{on})"
        differs = f"output {self.output}{name} differs from the original's"
        if not math.isfinite(self.max_abs_difference):
            return f"{differs} {place}"
        return (
            f"{differs} by up to {self.max_abs_difference:.3g} {place}, over the tolerance of "
            f"{self.tolerance:.3g}"
        )

    @property
    def agrees(self) -> bool:
        """Whether the difference is within the tolerance."""
        return self.max_abs_difference <= self.tolerance


def compare_outputs(
    reference: Sequence[NDArray[Any]],
    actual: Sequence[NDArray[Any]],
    rounding_errors: Sequence[float] = (),
    changing: Sequence[NDArray[np.bool_]] = (),
) -> OutputCheck:
    """Compares outputs in order with `Network.reference_outputs`; raises OutputFormError if shapes differ.

    The tolerance of an element is the larger of two values: that of its data type (`tolerances.network`)
    times the scale of its slice, and ROUNDING_FACTOR times the output's entry in `rounding_errors` (see
    `Network.rounding_errors`). Integers and booleans must be equal, apart from `changing` elements (see
    `Network.changing_elements`). NaN equals NaN, and an infinity equals itself.
    """
    checks = []
    for output, (expected, got) in enumerate(_paired(reference, actual)):
        tolerances = np.maximum(
            _relative_tolerance(expected, got) * _scales(expected),
            ROUNDING_FACTOR * (rounding_errors[output] if rounding_errors else 0.0),
        )
        gaps = _gaps(expected, got)
        if _is_exact(expected):
            tolerances = np.zeros(())
            if changing:
                gaps[changing[output] & np.isfinite(gaps)] = 0.0
        checks.append(_check(output, (expected, got), gaps, tolerances))
    return worst(checks)


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
        scale = _scale(np.abs(pair[0].astype(np.float64)))
        tolerance = accepted.network * scale
        if math.isfinite(theirs):
            tolerance = max(NARROW_FACTOR * theirs, accepted.rounding * scale)
        checks.append(_check(output, pair, _gaps(*pair), np.asarray(tolerance)))
    return worst(checks)


def narrow_differences(reference: Sequence[NDArray[Any]], actual: Sequence[NDArray[Any]]) -> list[float]:
    """Largest difference in each output that `compare_narrow_outputs` compares."""
    return [float(_gaps(*pair).max(initial=0.0)) for _, pair in _narrow_pairs(reference, actual)]


def require_same_form(
    reference: Sequence[NDArray[Any]], actual: Sequence[NDArray[Any]], *, narrow: bool = False
) -> None:
    """Raises OutputFormError for another number, other shapes or other data types of outputs.

    A bfloat16 output counts as float32, since `Network.reference_outputs` are. With `narrow`, floating types
    may differ.
    """
    _paired(reference, actual)
    for output, arrays in enumerate(zip(reference, actual, strict=True)):
        wanted, found = (
            "float32" if array.dtype.name == "bfloat16" else array.dtype.name for array in arrays
        )
        if wanted != found and not (narrow and not any(map(_is_exact, arrays))):
            raise OutputFormError(f"output {output} is {found}, and the original's is {wanted}")


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


def _relative_tolerance(expected: NDArray[Any], got: NDArray[Any]) -> float:
    """Accepted difference over the scale: that of the narrower of the two data types."""
    known = [one for array in (expected, got) if (one := known_type(array.dtype.name)) is not None]
    default = data_type(WIDE).tolerances.network
    return max((one.tolerances.network for one in known if not one.is_integer), default=default)


def _scale(wide: NDArray[np.float64]) -> float:
    """Largest finite element of absolute values, apart from fillings; 0 without one."""
    values = wide[np.isfinite(wide) & (wide > 0)]
    while values.size:
        top = float(values.max())
        rest = values[values < top]
        if not rest.size or values.size - rest.size < 2 or top < _APART * rest.max():
            return top
        values = rest
    return 0.0


def _scales(expected: NDArray[Any]) -> NDArray[np.float64]:
    """Scale of each element, in a shape that broadcasts to the output's.

    It is the output's `_scale`. Fillings of masks, which exceed it, have their own. A large slice along the
    second axis, such as a channel, may have a smaller one.
    """
    wide = np.abs(expected.astype(np.float64))
    scale = _scale(wide)
    common = np.full((1,) * wide.ndim, scale)
    usual = np.where(np.isfinite(wide) & (wide <= scale), wide, 0.0)
    if wide.ndim > 2 and wide[:, :1].size >= _SLICE_ELEMENTS:
        others = tuple(axis for axis in range(wide.ndim) if axis != 1)
        common = np.maximum(usual.max(axis=others, keepdims=True), _LEAST_SLICE * scale)
    return np.where(np.isfinite(wide) & (wide > scale), wide, common)


def _gaps(expected: NDArray[Any], got: NDArray[Any]) -> NDArray[np.float64]:
    """Absolute difference of each element; inf where one alone is NaN, infinite, or of an exact type."""
    if _is_exact(expected) != _is_exact(got):
        return np.full(expected.shape, math.inf)
    wanted, found = expected.astype(np.float64), got.astype(np.float64)
    if expected.dtype.itemsize == 8 and _is_exact(expected):  # large integers, which float64 rounds
        return np.where(expected == got, 0.0, np.maximum(np.abs(found - wanted), 1.0))
    with np.errstate(invalid="ignore"):  # infinite elements agree if they are equal
        gap = np.where(wanted == found, 0.0, np.abs(found - wanted))
    gap = np.where(np.isnan(wanted) & np.isnan(found), 0.0, gap)
    return np.where(np.isfinite(gap), gap, np.inf)


def _check(
    output: int, pair: _Pair, gaps: NDArray[np.float64], tolerances: NDArray[np.float64]
) -> OutputCheck:
    """Check of the element whose difference is largest over its tolerance."""
    if not gaps.size:
        return OutputCheck(0.0, float(tolerances.max(initial=0.0)), output)
    accepted = np.broadcast_to(tolerances, gaps.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(gaps == 0, 0.0, gaps / accepted)
    place = int(ratios.argmax()) if ratios.any() else int(accepted.argmax())
    index = tuple(int(axis) for axis in np.unravel_index(place, gaps.shape))
    expected, got = (f"{array[index]:.6g}" for array in pair)
    return OutputCheck(float(gaps[index]), float(accepted[index]), output, index, (expected, got))


def worst(checks: Sequence[OutputCheck]) -> OutputCheck:
    """The check with the largest difference, among those that disagree if there are some."""
    return max(
        checks, key=lambda check: (not check.agrees, check.max_abs_difference), default=OutputCheck(0.0, 0.0)
    )
