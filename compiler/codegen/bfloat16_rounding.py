"""Rounding of float32 to bfloat16 by the CPU's own instruction.

TVM rounds by arithmetic on the bits, in six instructions for each vector. Networks in bfloat16 round every
value that they store, which is a tenth of the time of a network with little work for each value.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call
from tvm.tirx import PrimFunc

from ..targets import traits
from ..tvm_compat import cpu_target, importing_llvm, lane_dtype, lanes_of
from ..types import WIDE

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
