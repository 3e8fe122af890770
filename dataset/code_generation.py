"""Code that a process that compiles for CPUs generates beside TVM's own.

This happens after scheduling: traces, hashes and features of programs stay as they are, and a process that
compiles them without it produces correct code, too.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import tvm
from tvm.tirx import PrimFunc
from tvm.tirx.compilation_pipeline import PIPELINE_MAP, register_tir_pipeline

from .prefetching import with_prefetches
from .remainders import with_remainders_apart
from .vector_math import vectorise_math
from .wide_vectors import with_register_vectors

_PIPELINE = "s_tir"
"""Name of the pipeline that TVM lowers scheduled functions with."""


@cache
def improve_code() -> None:
    """Makes all code that this process generates for CPUs as fast as it was measured.

    Exponentials, hyperbolic tangents and error functions run in vectors (`vector_math`), templates prefetch
    their weights (`prefetching`), wide vectors are whole registers (`wide_vectors`), and remainders have code
    of their own (`remainders`). Code without it is correct, too.
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
    return with_register_vectors(with_remainders_apart(with_prefetches(func)))
