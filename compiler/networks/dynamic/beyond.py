"""A second function of a network for sizes outside of the ranges, with plain schedules.

Kernels of the first function rely on the ranges: a family has kernels that are right from some size on, and
TVM plans the memory of a function for the largest sizes, so that larger ones write past its end. The second
function has neither: its loops are right for every size, and each run allocates its own memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import tvm
from tvm import relax
from tvm.ir import GlobalVar
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.tirx import PrimFunc

from ...dynamic.symbols import BEYOND, Extent
from .dynamic_inputs import DynamicInputs

LARGEST = 2**31 - 1
"""Largest size that the second function is made for."""


def any_size(dynamic: DynamicInputs) -> DynamicInputs:
    """The inputs with the widest range of each symbol: every extent is at least 1."""
    least = dict.fromkeys(dynamic.symbols, 1)
    for shape in dynamic.shapes:
        for extent in shape or ():
            if isinstance(extent, Extent):
                least[extent.symbol] = max(least[extent.symbol], -((extent.offset - 1) // extent.factor))
    symbols = {
        name: replace(symbol, low=least[name], high=LARGEST) for name, symbol in dynamic.symbols.items()
    }
    return replace(dynamic, symbols=symbols)


def with_beyond(mod: tvm.IRModule, unbounded: tvm.IRModule) -> tvm.IRModule:
    """The module with the functions of another one, whose `main` has the name BEYOND there."""
    return _Joined(mod, unbounded).module()


@mutator
class _Joined(PyExprMutator):
    """Adds functions under new names, which calls of them get as well."""

    def __init__(self, mod: tvm.IRModule, further: tvm.IRModule) -> None:
        super().__init__(tvm.IRModule(mod.functions, attrs=mod.attrs))
        self._main = further["main"]
        self._vars: Mapping[str, GlobalVar] = {
            name: self.builder_.add_func(_named(func, f"{BEYOND}_{name}"), f"{BEYOND}_{name}")
            for name, func in ((var.name_hint, func) for var, func in further.functions_items())
            if isinstance(func, PrimFunc)
        }

    def module(self) -> tvm.IRModule:
        """The joined module."""
        main = self.visit_expr(self._main)
        joined = self.builder_.get()
        joined[BEYOND] = _named(main, BEYOND)
        return joined

    def visit_global_var_(self, var: GlobalVar) -> relax.Expr:
        """The new name of a function."""
        return self._vars.get(var.name_hint, var)


def _named(func: PrimFunc | relax.Function, name: str) -> PrimFunc | relax.Function:
    return func.with_attr("global_symbol", name)
