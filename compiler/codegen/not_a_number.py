"""Maxima and minima of floats that keep NaN, as PyTorch's and ONNX's do.

LLVM's code for TVM's `max(a, b)` is `a > b ? a : b`, which returns b if one of the two is NaN. An activation
such as `max(x, 0)` then turns NaN into 0. With the operands exchanged it is the same instruction, and keeps
NaN. Only the maximum of two values that may both be NaN takes more instructions. Running maxima of softmax
and pooling stay as they are.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.tirx import PrimFunc

from ..tvm_compat import cpu_target, lane_dtype


def with_nan_kept(func: PrimFunc) -> PrimFunc:
    """A lowered function for a CPU whose maxima and minima of floats are NaN if an operand is NaN."""
    if cpu_target(func) is None:
        return func
    running: list[Any] = []

    def note(store: tirx.BufferStore) -> None:
        if isinstance(store.value, tirx.Max | tirx.Min) and _reads(store.value, store):
            running.append(store.value)

    tvm_ffi.structural_walk(func.body, (tirx.BufferStore, note))

    def changed(one: Any) -> Any:
        if "float" not in lane_dtype(one) or _is_constant(one.a):
            return one
        if _is_constant(one.b):
            return type(one)(one.b, one.a)
        if any(one.same_as(other) for other in running):
            return one
        return tirx.Select(tirx.isnan(one.a), one.a, one)

    body = tvm_ffi.structural_map(func.body, [(tirx.Max, changed), (tirx.Min, changed)])
    return func if body.same_as(func.body) else func.with_body(body)


def _is_constant(value: Any) -> bool:
    if isinstance(value, tirx.Broadcast):
        value = value.value
    return isinstance(value, tirx.FloatImm)


def _reads(value: Any, store: tirx.BufferStore) -> bool:
    """Whether an operand is the element that the result replaces."""
    return any(
        isinstance(one, TensorLoad)
        and one.source.same_as(store.buffer)
        and tvm_ffi.structural_equal(one.indices, store.indices)
        for one in (value.a, value.b)
    )
