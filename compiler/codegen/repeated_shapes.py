"""Shapes and numbers of symbolic extents that a network makes once in each call, and not for each array."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..tvm_compat import relax_bindings

_MADE = ("vm.builtin.make_shape", "vm.builtin.make_prim_value")
"""Builtins that make a value of the sizes of a call, which do not change during the call."""


def without_repeated_shapes() -> tvm.transform.Pass:
    """Pass after TVM's pipeline: what a Relax function makes several times, it makes once."""
    return tvm.transform.module_pass(_changed, opt_level=0, name="WithoutRepeatedShapes")


def _changed(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    functions = {
        var: _Reuse().visit_expr(func) if isinstance(func, relax.Function) and _is_straight(func) else func
        for var, func in mod.functions_items()
    }
    return tvm.IRModule(functions, attrs=mod.attrs)


def _is_straight(func: relax.Function) -> bool:
    """Whether a function has no branches: what one of them makes, the other has not."""
    return not any(isinstance(value, relax.If) for _, value in relax_bindings(func))


@mutator
class _Reuse(PyExprMutator):
    """Reads the first of equal values in place of the others.

    Each number of a shape is computed before its first use and never again.
    """

    def __init__(self) -> None:
        super().__init__(tvm.IRModule())
        self._first: dict[str, relax.Var] = {}
        self._same: dict[relax.Var, relax.Var] = {}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """Leaves out the binding of a value that was made before."""
        if (key := _key(binding.value)) is not None:
            if key in self._first:
                self._same[binding.var] = self._first[key]
                return
            self._first[key] = binding.var
        super().visit_var_binding_(binding)

    def visit_var_(self, op: relax.Var) -> relax.Expr:
        """The variable of the first of equal values."""
        return self._same.get(op, op)


def _key(value: Any) -> str | None:
    """Text of a call of a builtin that makes a value; None for anything else."""
    if not isinstance(value, relax.Call) or not isinstance(value.op, relax.ExternFunc):
        return None
    name = str(value.op.global_symbol)
    return f"{name}({', '.join(map(str, value.args))})" if name in _MADE else None
