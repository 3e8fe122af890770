"""Copies of a network of symbolic extents with numbers in place of its symbols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.tirx import PrimFunc
from tvm.tirx.buffer import is_buffer_var

from ...templates.cpu.contraction import variables_of
from ...templates.cpu.dynamic.nodes import fixed, number
from ...tvm_compat import bound_symbols, called_function


def symbols_of(main: relax.Function) -> dict[str, Any]:
    """Variables of the extents of the inputs, by name."""
    sizes = [size for param in main.params for size in getattr(param.ty, "shape", None) or ()]
    return {var.name: var for var in sorted(variables_of(sizes), key=lambda var: var.name)}


def bound(mod: tvm.IRModule, sizes: Mapping[str, int]) -> tvm.IRModule:
    """A copy of `main` and its TIR functions, where symbols have these sizes. Nothing is compiled."""
    main = mod["main"].bind_symbolic_vars(dict(sizes))
    return _Binder(mod).module(main)


@mutator
class _Binder(PyExprMutator):
    """Calls functions of fixed extents."""

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(tvm.IRModule())
        self._mod = mod
        self._vars: dict[tuple[Any, ...], tvm.ir.GlobalVar] = {}

    def module(self, main: relax.Function) -> tvm.IRModule:
        """The functions that `main` calls, with `main`."""
        made = self.visit_expr(main)
        return tvm.IRModule({**self.builder_.get().functions, tvm.ir.GlobalVar("main"): made})

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """The call of a function for the extents of its arguments."""
        name = called_function(call)
        if name is None or not isinstance(self._mod[name], PrimFunc):
            return super().visit_call_(call)
        func, given = self._mod[name], list(call.args[1].fields)
        symbols = bound_symbols(func, call)
        values = {var: known for var, size in symbols.items() if (known := fixed(size)) is not None}
        key = name, *(values[var] for var in values)
        if key not in self._vars:
            self._vars[key] = self.builder_.add_func(_with_values(func, values), name)
        arrays = [
            self.visit_expr(one)
            for one, param in zip(given, func.params, strict=False)
            if is_buffer_var(param)
        ]
        return relax.Call(
            call.op, [self._vars[key], relax.Tuple(arrays)], call.attrs, call.ty_args, call.span
        )


def _with_values(func: PrimFunc, values: Mapping[Any, int]) -> PrimFunc:
    if not values:
        return func
    further = [var for var in values if not any(var.same_as(param) for param in func.params)]
    free = PrimFunc([*func.params, *further], func.body, attrs=func.attrs)
    return free.specialize({var: number(value) for var, value in values.items()})
