"""Quantised values without detours: a conversion rounds them, and values that are read again stay float32.

ONNX quantises by round, clip and cast, each an instruction of a vector or more. A CPU's conversion to
integers rounds on its own, ties to even. A residual sum reads a quantised value back as float32: the clipped
value is that number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tvm_ffi
from tvm import tirx
from tvm.ir import Call
from tvm.tirx import PrimFunc

from ..tvm_compat import cpu_target, dtype_as_wide, lane_dtype
from ..types import WIDE, data_type

_RANGES = {name: data_type(name).range for name in ("uint8", "int8")}


class _Quantised(NamedTuple):
    """The value round(scaled) + zero, clipped to the range of the integers."""

    scaled: Any
    zero: int
    clips: list[tuple[type, int]]
    """Minimum or maximum with a bound, the innermost first."""


def with_integer_rounding(func: PrimFunc) -> PrimFunc:
    """A lowered function for a CPU in which conversions round quantised values; all numbers give the same."""
    if cpu_target(func) is None:
        return func
    read_back = _mapped(func.body, _read_back)
    body = _mapped(read_back, _rounded)
    return func if body.same_as(func.body) else func.with_body(body)


def _mapped(body: Any, change: Callable[[tirx.Cast], Any]) -> Any:
    return tvm_ffi.structural_map(body, (tirx.Cast, change))


def _read_back(cast: tirx.Cast) -> Any:
    """float32 of a quantised value without the integers between."""
    inner = cast.value
    if lane_dtype(cast) == WIDE and isinstance(inner, tirx.Cast) and _quantised(inner) is not None:
        return inner.value
    return cast


def _rounded(cast: tirx.Cast) -> Any:
    """A quantised value that is clipped before it is converted."""
    found = _quantised(cast)
    if found is None:
        return cast
    value, dtype = found.scaled, str(found.scaled.ty.dtype)
    for kind, bound in found.clips:
        value = kind(value, tirx.const(float(bound - found.zero), dtype))
    whole = dtype_as_wide("int32", value)
    value = tirx.call_llvm_pure_intrin(whole, "llvm.lrint", value)
    if found.zero:
        value = value + tirx.const(found.zero, whole)
    return tirx.Cast(str(cast.ty.dtype), value)


def _quantised(cast: tirx.Cast) -> _Quantised | None:
    """Value that a cast quantises, None for other casts."""
    limits = _RANGES.get(lane_dtype(cast))
    if limits is None or lane_dtype(cast.value) != WIDE:
        return None
    value, clips = cast.value, []
    while isinstance(value, tirx.Min | tirx.Max) and (bound := _whole(value.b)) is not None:
        clips.append((type(value), bound))
        value = value.a
    zero: int | None = 0
    if isinstance(value, tirx.Add):
        value, zero = value.a, _whole(value.b)
    held = {kind for kind, _ in clips} == {tirx.Min, tirx.Max} and all(
        limits[0] <= bound <= limits[1] for _, bound in clips
    )
    is_rounded = isinstance(value, Call) and value.op.name == "tirx.nearbyint"
    if zero is None or not held or not is_rounded:
        return None
    return _Quantised(value.args[0], zero, clips[::-1])


def _whole(value: Any) -> int | None:
    """Integer that all lanes of a constant are, None for any other value."""
    scalar = value.value if isinstance(value, tirx.Broadcast) else value
    if not isinstance(scalar, tirx.FloatImm) or not float(scalar.value).is_integer():
        return None
    return int(scalar.value)
