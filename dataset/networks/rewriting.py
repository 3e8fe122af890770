"""Rewriting of the calls of a Relax module by a pattern."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tvm
from tvm import relax
from tvm.relax.dpl import DFPattern, rewrite_call


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
