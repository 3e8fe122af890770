"""Code that a process that compiles for CPUs generates in addition to TVM's own.

This happens after scheduling: traces, hashes and features of programs stay unchanged, and a process that
compiles them without it produces correct code, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import tvm
from tvm.tirx import PrimFunc
from tvm.tirx.compilation_pipeline import PIPELINE_MAP, register_tir_pipeline

from .bfloat16_rounding import with_native_rounding
from .fast_scheduling import bound_scheduling
from .integer_rounding import with_integer_rounding
from .local_arrays import with_local_arrays
from .prefetching import with_prefetches
from .remainders import with_remainders_apart
from .vector_math import vectorise_math
from .wide_vectors import with_register_vectors

_PIPELINE = "s_tir"
"""Name of the pipeline that TVM lowers scheduled functions with."""


@cache
def improve_code() -> None:
    """Makes all code that this process generates for CPUs as fast as it was measured.

    Exponentials, hyperbolic tangents, error functions and roundings run in vectors (`vector_math`), templates
    prefetch their weights (`prefetching`), wide vectors are whole registers (`wide_vectors`), remainders have
    code of their own (`remainders`), instructions round to bfloat16 (`bfloat16_rounding`) and to
    quantised values (`integer_rounding`), and sums stay in registers (`local_arrays`). Long code compiles
    faster (`fast_scheduling`). Code without all this is correct, too.
    """
    vectorise_math()
    bound_scheduling()
    before = PIPELINE_MAP[_PIPELINE]

    def pipeline() -> tuple[Any, Any, Any]:
        lowering, host, device = before()
        return tvm.transform.Sequential([_before_lowering, lowering, _after_lowering]), host, device

    register_tir_pipeline(_PIPELINE, pipeline)


@tvm.transform.module_pass(opt_level=0)
def _before_lowering(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    """Prefetches come first: they read whole vectors as the schedule has them."""
    return _changed(mod, lambda func: with_register_vectors(with_remainders_apart(with_prefetches(func))))


@tvm.transform.module_pass(opt_level=0)
def _after_lowering(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    return _changed(mod, lambda func: with_local_arrays(with_integer_rounding(with_native_rounding(func))))


def _changed(mod: tvm.IRModule, change: Callable[[PrimFunc], PrimFunc]) -> tvm.IRModule:
    """The module with each of its TIR functions changed."""
    functions = {
        name: change(func) if isinstance(func, PrimFunc) else func for name, func in mod.functions_items()
    }
    return tvm.IRModule(functions, attrs=mod.attrs)
