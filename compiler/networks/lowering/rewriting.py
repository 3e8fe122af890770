"""Rewriting of a Relax module: of its calls by a pattern, of its functions by a mutator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tvm
from tvm import relax
from tvm.relax.dpl import DFPattern, rewrite_call
from tvm.relax.expr_functor import PyExprMutator


def rewritten(
    mod: tvm.IRModule,
    pattern: DFPattern,
    rewrite: Callable[[relax.Expr, Mapping[DFPattern, relax.Expr]], relax.Expr],
) -> tvm.IRModule:
    """The module with its Relax functions rewritten."""
    changed = tvm.IRModule(mod.functions, attrs=mod.attrs)
    for var, func in mod.functions_items():
        if isinstance(func, relax.Function):
            changed[var] = rewrite_call(pattern, rewrite, func)
    return changed


def mutated(mod: tvm.IRModule, mutator: PyExprMutator) -> tvm.IRModule:
    """The module with its Relax functions visited by a mutator of it, without code that is dead then."""
    for var, func in mod.functions_items():
        if isinstance(func, relax.Function):
            mutator.builder_.update_func(var, mutator.visit_expr(func))
    return relax.transform.DeadCodeElimination()(mutator.builder_.get())


def operator_of(call: relax.Call) -> str:
    """Name of the operator that is called, such as relax.reshape; "" for a function."""
    return str(getattr(call.op, "name", ""))


def has_fixed_shape(value: Any) -> bool:
    """Whether a value is a tensor whose extents are numbers."""
    shape = value.ty.shape if isinstance(value.ty, relax.TensorType) else None
    return shape is not None and all(isinstance(extent, tvm.tirx.IntImm) for extent in shape)


def extents_of(value: Any) -> list[int]:
    """Extents of a tensor of fixed shape."""
    return [int(extent) for extent in value.ty.shape]
