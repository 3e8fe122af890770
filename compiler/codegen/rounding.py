"""Rounding by instructions of the CPU: of float32 to bfloat16, and to quantised values.

TVM rounds to bfloat16 by arithmetic on the bits, in six instructions for each vector, which is a tenth of the
time of a network with little work for each value. ONNX quantises by round, clip and cast, each an instruction
of a vector or more; a conversion to integers rounds on its own, ties to even. A residual sum reads a
quantised value back as float32: the clipped value is that number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tvm_ffi
from tvm import tirx
from tvm.ir import Call
from tvm.tirx import PrimFunc

from ..targets import traits
from ..tvm_compat import cpu_target, dtype_as_wide, importing_llvm, lane_dtype, lanes_of
from ..types import WIDE, data_type

_NARROW = "bfloat16"


def with_native_rounding(func: PrimFunc) -> PrimFunc:
    """A lowered function for a CPU that rounds by an instruction where its target has one.

    The function comes from TVM's passes, which store bfloat16 as 16-bit integers. Results are the same but
    for subnormal numbers, which become zero.
    """
    target = cpu_target(func)
    if target is None or not traits(target).converts(_NARROW):
        return func
    widths: set[int] = set()

    def changed(cast: tirx.Cast) -> Any:
        value = _rounded_by_arithmetic(cast)
        if value is None:
            return cast
        lanes = lanes_of(cast)
        widths.add(lanes)
        return tirx.call_extern(str(cast.ty.dtype), _function(lanes), value)

    body = tvm_ffi.structural_map(func.body, (tirx.Cast, changed))
    if not widths:
        return func
    # TVM passes no bfloat16 on to LLVM, so that functions of LLVM's own do the rounding; they are inlined.
    text = "".join(map(_llvm_ir, sorted(widths)))
    return func.with_body(importing_llvm(text, body))


def _rounded_by_arithmetic(cast: tirx.Cast) -> Any:
    """The float32 numbers that TVM rounds to bfloat16 by this cast, None for another cast."""
    is_narrow = lane_dtype(cast) == "uint16" and isinstance(cast.value, tirx.RShift)
    total = cast.value.a if is_narrow else None
    bits = total.a if isinstance(total, tirx.Add) else None
    if not isinstance(bits, Call) or bits.op.name != "tirx.reinterpret":
        return None
    (value,) = bits.args
    is_wide = lane_dtype(value) == WIDE
    same = is_wide and tvm_ffi.structural_equal(cast, _rounding_arithmetic(bits, lanes_of(cast)))
    return value if same else None


def rounded_bits(value: Any) -> Any:
    """The 16 bits of a float32 number rounded to bfloat16.

    TVM computes casts to bfloat16 in float32, so that their bits are not to be had.
    """
    return _rounding_arithmetic(tirx.reinterpret(dtype_as_wide("uint32", value), value), lanes_of(value))


def _rounding_arithmetic(bits: Any, lanes: int) -> Any:
    """TVM's rounding of the numbers with these bits, ties to even."""

    def constant(value: int) -> Any:
        return tirx.const(value, str(bits.ty.dtype))

    odd = tirx.BitwiseAnd(tirx.RShift(bits, constant(16)), constant(1))
    total = tirx.Add(bits, tirx.Add(odd, constant(0x7FFF)))
    return tirx.Cast("uint16" if lanes == 1 else f"uint16x{lanes}", tirx.RShift(total, constant(16)))


def _function(lanes: int) -> str:
    return f"foretune_rounded_{lanes}"


def _llvm_ir(lanes: int) -> str:
    floats, halves, bits = (
        kind if lanes == 1 else f"<{lanes} x {kind}>" for kind in ("float", "bfloat", "i16")
    )
    return f"""
define {bits} @{_function(lanes)}({floats} %x) alwaysinline {{
  %rounded = fptrunc {floats} %x to {halves}
  %bits = bitcast {halves} %rounded to {bits}
  ret {bits} %bits
}}
"""


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
