"""Remainders of loops whose last iteration is not whole: code of their own, in place of conditions."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm.tirx import For, PrimFunc
from tvm.tirx.transform import ForceNarrowIndexToInt32

APART = "pragma_loop_partition_hint"
"""Annotation of a loop whose last iterations TVM lowers apart from the others."""


def with_remainders_apart(func: PrimFunc) -> PrimFunc:
    """Function whose marked loops TVM takes the remainder out of.

    TVM narrows indices of 64 bits after scheduling and loses the marks of their loops by it. Here they are
    narrowed before, unless the function has arrays of such integers, whose values may need 64 bits.
    """
    loops: list[For] = []
    tvm_ffi.structural_walk(func.body, (For, loops.append))
    marked = any(APART in loop.annotations for loop in loops)
    if not marked or any(str(param.dtype) == "int64" for param in func.params):
        return func
    return ForceNarrowIndexToInt32()(tvm.IRModule({"main": func}))["main"]
