"""Small arrays of a thread on the stack, from where LLVM takes them into registers.

TVM gets arrays of a kilobyte or more from its memory manager, inside of the loop over threads. The sums of a
register tile are such an array if vectors have 512 bits: they went through memory after each loop of the
reduction, and into the epilogue. Layers with a short reduction took up to 1.7 times as long.
"""

from __future__ import annotations

from math import prod

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx import PrimFunc

from ..operators.shared.tir import extents
from ..tvm_compat import cpu_target

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
