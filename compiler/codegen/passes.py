"""Code that a process that compiles for CPUs generates in addition to TVM's own.

This happens after scheduling: traces, hashes and features of programs stay unchanged, and a process that
compiles them without it produces correct code, too.

TVM gets arrays of a kilobyte or more from its memory manager, inside of the loop over threads. The sums of a
register tile are such an array if vectors have 512 bits: they went through memory after each loop of the
reduction, and into the epilogue. Layers with a short reduction took up to 1.7 times as long.
`with_local_arrays` keeps them on the stack, from where LLVM takes them into registers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx import PrimFunc
from tvm.tirx.compilation_pipeline import PIPELINE_MAP, register_tir_pipeline

from ..operators.shared.tir import extents
from ..tvm_compat import cpu_target
from .argument_checks import without_checks
from .fast_scheduling import bound_scheduling
from .not_a_number import with_nan_kept
from .prefetching import with_prefetches
from .remainders import with_remainders_apart
from .rounding import with_integer_rounding, with_native_rounding
from .vector_math import vectorise_math
from .wide_vectors import with_register_vectors

_PIPELINE = "s_tir"
"""Name of the pipeline that TVM lowers scheduled functions with."""


@cache
def improve_code() -> None:
    """Makes all code that this process generates for CPUs as fast as it was measured.

    Exponentials, hyperbolic tangents, error functions and roundings run in vectors (`vector_math`), templates
    prefetch their weights (`prefetching`), wide vectors are whole registers (`wide_vectors`), remainders have
    code of their own (`remainders`), instructions round to bfloat16 and to quantised values
    (`rounding`), and sums stay in registers (`with_local_arrays`). Activations keep NaN (`not_a_number`).
    Long code compiles faster (`fast_scheduling`). Code without all this is correct, too, but for NaN.
    """
    vectorise_math()
    bound_scheduling()
    before = PIPELINE_MAP[_PIPELINE]

    def pipeline() -> tuple[Any, Any, Any]:
        lowering, host, device = before()
        steps = [_before_lowering, _leaving_exact_arrays(lowering), _after_lowering]
        return tvm.transform.Sequential(steps), host, device

    register_tir_pipeline(_PIPELINE, pipeline)


EXACT_ARRAYS = "foretune.exact_arrays"
"""Attribute of functions whose arrays are declared as small as they can be."""

_SHRINKING = "s_tir.CompactBufferAllocation"
"""Pass that shrinks arrays to the accessed part. With symbolic indices it takes half of the compile time."""


def _leaving_exact_arrays(lowering: tvm.transform.Pass) -> tvm.transform.Pass:
    """`lowering`, without the pass that shrinks arrays for functions with EXACT_ARRAYS."""

    @tvm.transform.module_pass(opt_level=0)
    def lowered(mod: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        exact: dict[Any, Any] = {}
        others: dict[Any, Any] = {}
        for name, func in mod.functions_items():
            of_kind = exact if EXACT_ARRAYS in (func.attrs or {}) else others
            of_kind[name] = func
        if not exact:
            return lowering(mod)
        with tvm.transform.PassContext(
            opt_level=context.opt_level,
            required_pass=list(context.required_pass),
            disabled_pass=[*context.disabled_pass, _SHRINKING],
            config=dict(context.config),
        ):
            found = lowering(tvm.IRModule(exact, attrs=mod.attrs))
        if others:
            found.update(lowering(tvm.IRModule(others, attrs=mod.attrs)))
        return found

    return lowered


@tvm.transform.module_pass(opt_level=0)
def _before_lowering(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    """Prefetches come first: they read whole vectors as the schedule has them."""
    return _changed(mod, lambda func: with_register_vectors(with_remainders_apart(with_prefetches(func))))


@tvm.transform.module_pass(opt_level=0)
def _after_lowering(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    return _changed(
        without_checks(mod),
        lambda func: with_local_arrays(with_nan_kept(with_integer_rounding(with_native_rounding(func)))),
    )


def _changed(mod: tvm.IRModule, change: Callable[[PrimFunc], PrimFunc]) -> tvm.IRModule:
    """The module with each of its TIR functions changed."""
    functions = {
        name: change(func) if isinstance(func, PrimFunc) else func for name, func in mod.functions_items()
    }
    return tvm.IRModule(functions, attrs=mod.attrs)


STACK_BYTES = 16384
"""Bytes of the largest array that goes on the stack."""

_AS_IT_IS = "disable_lower_builtin"
"""Annotation of an allocation that TVM leaves to LLVM."""


def with_local_arrays(func: PrimFunc) -> PrimFunc:
    """A lowered function for a CPU whose arrays of scope `local` are on the stack."""
    if cpu_target(func) is None:
        return func

    def changed(allocation: tirx.AllocBuffer) -> tirx.AllocBuffer:
        buffer = allocation.buffer
        if buffer.scope() != "local" or not 0 < _bytes(buffer) <= STACK_BYTES:
            return allocation
        annotations = {**dict(allocation.annotations), _AS_IT_IS: tirx.const(1, "int32")}
        return tirx.AllocBuffer(buffer, annotations)

    body = tvm_ffi.structural_map(func.body, (tirx.AllocBuffer, changed))
    return func if body.same_as(func.body) else func.with_body(body)


def _bytes(buffer: tirx.Buffer) -> int:
    """Bytes of an array of constant extents, 0 of any other."""
    if not all(isinstance(extent, tirx.IntImm) for extent in buffer.shape):
        return 0
    return prod(extents(buffer)) * tvm.DataType(str(buffer.dtype)).itemsize
