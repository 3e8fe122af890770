"""Vector instructions of arithmetic that a scheduled program executes, from its lowered stores.

A loop that the schedule vectorises takes as many instructions as its lanes fill registers. A multiplication
whose result is added is one instruction with the addition. Arithmetic on indices, loads, stores and loop
control are not counted: they issue beside the arithmetic, and `traffic` counts the bytes of loads and stores,
and elements of vectors that are loaded one by one.
"""

from __future__ import annotations

import math

import tvm
from tvm.ir import Call
from tvm.tirx import Add, Cast, ForKind, Mul, Select, Sub

from .code_size import FUNCTIONS
from .traffic import LoweredStores
from .tvm_compat import IF_THEN_ELSE


def executed_instructions(stores: LoweredStores, vector_bits: int) -> float:
    """Instructions of one call, over all cores, on registers of `vector_bits`.

    Iterations that a condition leaves out count as executed.
    """
    total = 0.0
    for loops, store in stores.stores:
        each = _operations(store.value)
        iterations, lanes = 1.0, 1
        for loop in loops:
            extent = int(getattr(loop.extent, "value", 1))
            if loop.kind == ForKind.VECTORIZED:
                lanes *= extent
            else:
                iterations *= extent
        bits = tvm.DataType(str(store.buffer.dtype)).bits
        total += iterations * math.ceil(lanes * bits / vector_bits) * each
    return total


def _operations(value: object) -> int:
    """Arithmetic instructions that evaluate an expression once."""
    if isinstance(value, Cast):
        return 1 + _operations(value.value)
    if isinstance(value, Select):
        return 1 + _operations(value.true_value) + _operations(value.false_value)
    if isinstance(value, Call):
        name = getattr(value.op, "name", "")
        if name == IF_THEN_ELSE:  # its condition is arithmetic on indices
            return 1 + sum(map(_operations, value.args[1:]))
        return FUNCTIONS.get(name, 1) + sum(map(_operations, value.args))
    if hasattr(value, "a") and hasattr(value, "b"):
        fused = isinstance(value, Add | Sub) and (isinstance(value.a, Mul) or isinstance(value.b, Mul))
        return (0 if fused else 1) + _operations(value.a) + _operations(value.b)
    return 0
