"""Vector instructions of arithmetic that a scheduled program executes, from its lowered stores.

A loop that the schedule vectorises takes as many instructions as its lanes fill registers. A multiplication
whose result is added is one instruction with the addition. Arithmetic on indices, loads, stores and loop
control are not counted: they issue along with arithmetic, and `traffic` counts the bytes of loads and stores,
and elements of vectors that are loaded one by one.

An addition to a sum waits for the one before, which takes four cycles, while two others could start in each.
A CPU hides this wait with additions to other sums, of the loops inside or of later iterations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import tvm_ffi
from tvm.ir import Call
from tvm.ir.expr import TensorLoad
from tvm.tirx import Add, BufferStore, Cast, For, ForKind, Mul, Select, Sub, Var

from ..tvm_compat import IF_THEN_ELSE
from .code_size import FUNCTIONS
from .touched_boxes import bits_of
from .traffic import LoweredStores, loop_extent

IN_FLIGHT = 8
"""Additions of four cycles that a core needs under way to start two in each cycle."""

WINDOW = 96
"""Additions that a core has in view at a time."""


def executed_instructions(stores: LoweredStores, vector_bits: int) -> float:
    """Instructions of one call, over all cores, on registers of `vector_bits`.

    Iterations that a condition leaves out count as executed.
    """
    total = 0.0
    for loops, store in stores.stores:
        iterations, vectors = _executed(loops, store, vector_bits)
        total += iterations * vectors * _operations(store.value)
    return total


def chained_additions(stores: LoweredStores, vector_bits: int) -> float:
    """Additions of one call, over all cores, that wait for the one before; a shorter wait counts in part."""
    total = 0.0
    for loops, store in stores.stores:
        if not _adds_to(store):
            continue
        iterations, vectors = _executed(loops, store, vector_bits)
        places = _variables(store.indices)
        inside = [
            loop for loop in reversed(loops) if loop.kind != ForKind.VECTORIZED and loop_extent(loop) > 1
        ]
        sums, chain = float(vectors), 1
        while inside and inside[0].loop_var in places:
            sums *= loop_extent(inside.pop(0))
        while inside and inside[0].loop_var not in places:
            chain *= loop_extent(inside.pop(0))
        if chain > 1:
            under_way = max(sums, WINDOW / chain)
            total += iterations * vectors * max(1 - under_way / IN_FLIGHT, 0.0)
    return total


def _executed(loops: Sequence[For], store: BufferStore, vector_bits: int) -> tuple[float, int]:
    """Iterations of a store, and vectors that each of them takes."""
    iterations, lanes = 1.0, 1
    for loop in loops:
        if loop.kind == ForKind.VECTORIZED:
            lanes *= loop_extent(loop)
        else:
            iterations *= loop_extent(loop)
    return iterations, math.ceil(lanes * bits_of(str(store.buffer.dtype)) / vector_bits)


def _adds_to(store: BufferStore) -> bool:
    """Whether a store reads the buffer that it writes."""
    read: list[bool] = []
    tvm_ffi.structural_walk(
        store.value, (TensorLoad, lambda load: read.append(load.source.same_as(store.buffer)))
    )
    return any(read)


def _variables(indices: Sequence[object]) -> set[Var]:
    found: set[Var] = set()
    for index in indices:
        tvm_ffi.structural_walk(index, (Var, found.add))
    return found


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
