"""Code that a process that compiles for CPUs generates beside TVM's own.

This happens after scheduling: traces, hashes and features of programs stay as they are, and a process that
compiles them without it produces correct code, too.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import tvm
import tvm_ffi
from tvm.tirx import For, PrimFunc
from tvm.tirx.compilation_pipeline import PIPELINE_MAP, register_tir_pipeline
from tvm.tirx.transform import ForceNarrowIndexToInt32

from .prefetching import with_prefetches
from .vector_math import vectorise_math
from .wide_vectors import with_register_vectors

_HINT = "pragma_loop_partition_hint"

_PIPELINE = "s_tir"
"""Name of the pipeline that TVM lowers scheduled functions with."""


@cache
def improve_code() -> None:
    """Makes all code that this process generates for CPUs as fast as it was measured.

    Exponentials, hyperbolic tangents and error functions run in vectors (`vector_math`), templates prefetch
    their weights (`prefetching`), and wide vectors are whole registers (`wide_vectors`). Code without it is
    correct, too.
    """
    vectorise_math()
    before = PIPELINE_MAP[_PIPELINE]

    def pipeline() -> tuple[Any, Any, Any]:
        lowering, host, device = before()
        return tvm.transform.Sequential([_pass, lowering]), host, device

    register_tir_pipeline(_PIPELINE, pipeline)


@tvm.transform.module_pass(opt_level=0)
def _pass(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    changed = {
        name: _improved(func) if isinstance(func, PrimFunc) else func for name, func in mod.functions_items()
    }
    return tvm.IRModule(changed, attrs=mod.attrs)


def _improved(func: PrimFunc) -> PrimFunc:
    """Prefetches come first: they read whole vectors as the schedule has them."""
    return with_register_vectors(with_prefetches(_with_narrow_indices(func)))


def _with_narrow_indices(func: PrimFunc) -> PrimFunc:
    """Function with indices of 32 bits, if a schedule asks to take a remainder out of one of its loops.

    TVM narrows indices itself, but loses the request by it.
    """
    hinted: list[For] = []

    def look(loop: For) -> None:
        if _HINT in loop.annotations:
            hinted.append(loop)

    tvm_ffi.structural_walk(func.body, (For, look))
    if not hinted:
        return func
    return ForceNarrowIndexToInt32()(tvm.IRModule({"main": func}))["main"]
