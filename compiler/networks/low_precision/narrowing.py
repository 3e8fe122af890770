"""Networks in 16 bits: arrays between fused functions and the factors of products have the narrower type.

Sums, and all other arithmetic, stay float32: an activation is rounded once, when a function stores it. A
product is summed in the narrower type if the target multiplies and adds in it. Biases and the parameters of
norms stay float32, and so do values that no product reads or writes, such as the statistics of a norm. Inputs
and outputs of the network keep their data types. TVM's own pass for mixed precision supports float16 alone,
and rounds after each operator.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, topi
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.tirx import PrimFunc
from tvm.tirx.buffer import is_buffer_var

from ...tvm_compat import relax_bindings
from ...types import WIDE, DataType, numpy_type
from .stored_type import ArrayUse, array_use, stored_narrow

_CALL_TIR = tvm.ir.Op.get("relax.call_tir")


def in_stored_type(dtype: DataType, sums: str) -> Any:
    """Pass over fused TIR functions and the Relax functions that call them.

    `sums` is the data type in which products are summed: float32, or the stored type itself.
    """

    def stored(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        changing = _InStoredType(mod, dtype.name, sums)
        for var, func in mod.functions_items():
            if isinstance(func, relax.Function):
                changing.plan(func)
                changing.builder_.update_func(var, changing.visit_expr(func))
        return relax.transform.DeadCodeElimination()(changing.builder_.get())

    return tvm.transform.module_pass(stored, opt_level=0, name="InStoredType")


@mutator
class _InStoredType(PyExprMutator):
    """Replaces functions by functions of narrow arrays, and converts their arguments."""

    def __init__(self, mod: tvm.IRModule, stored: str, sums: str) -> None:
        super().__init__(mod)
        self._stored = stored
        self._sums = sums
        self._mod = mod
        self._uses: dict[tvm.ir.GlobalVar, ArrayUse | None] = {}
        self._narrow_results: set[relax.Call] = set()
        self._functions: dict[tuple[tvm.ir.GlobalVar, tuple[int, ...]], tvm.ir.GlobalVar] = {}
        self._converted: dict[tuple[relax.Var, str], relax.Var] = {}

    def plan(self, func: relax.Function) -> None:
        """Decides which calls give narrow results: products, and calls whose results products read.

        What the function returns stays float32; a product that reads it converts it first.
        """
        bindings = list(relax_bindings(func))
        values = dict(bindings)
        wanted: set[relax.Var] = set()
        for var, value in reversed(bindings):
            if isinstance(value, relax.Var) and var in wanted:
                wanted.add(value)
            if not _is_call_tir(value) or (use := self._use(value.args[0])) is None:
                continue
            read = use.operands
            if use.moves and var in wanted:
                read = frozenset(range(len(value.args[1].fields)))
            wanted.update(
                argument
                for index, argument in enumerate(value.args[1].fields)
                if index in read and isinstance(argument, relax.Var)
            )
        returned = _returned(func, values)
        narrow: set[relax.Var] = set()
        for var, value in bindings:
            if isinstance(value, relax.Var) and value in narrow:
                narrow.add(var)
            if not _is_call_tir(value) or (use := self._use(value.args[0])) is None:
                continue
            moved = use.moves and any(argument in narrow for argument in value.args[1].fields)
            if _dtype(var) != WIDE or var in returned:
                continue
            if var in wanted or moved or use.multiplies:
                narrow.add(var)
                self._narrow_results.add(value)

    def _use(self, var: tvm.ir.GlobalVar) -> ArrayUse | None:
        """Use of arrays of a function; None for one that stays unchanged."""
        if var not in self._uses:
            func = self._mod[var]
            self._uses[var] = array_use(func) if isinstance(func, PrimFunc) else None
        return self._uses[var]

    def visit_call_(self, call: relax.Call) -> Any:
        """Calls the function of narrow arrays; other calls keep their arguments."""
        if not _is_call_tir(call):
            return self._with_original_types(call)
        var, arguments = call.args[0], call.args[1]
        use, kind = self._use(var), call.ty_args[0]
        if use is None or not isinstance(kind, relax.TensorType):  # several results
            return self._with_original_types(call)
        func = self._mod[var]
        is_narrow = call in self._narrow_results
        fields, narrow = [], []
        for index, argument in enumerate(arguments.fields):
            if not is_buffer_var(func.params[index]):  # a symbolic extent
                fields.append(argument)
                continue
            wide = str(func.params[index].dtype) == WIDE
            visited = self.visit_expr(argument)
            if wide and (index in use.operands or (use.moves and is_narrow)):
                visited = self._in_type(visited, self._stored)
            elif wide and use.moves:
                visited = self._in_type(visited, WIDE)
            if wide and _dtype(visited) == self._stored:
                narrow.append(index)
            fields.append(visited)
        if is_narrow:
            narrow.append(len(func.params) - 1)
            kind = relax.TensorType(kind.shape, self._stored)
        callee = self._function(var, tuple(narrow)) if narrow else var
        return relax.Call(call.op, [callee, relax.Tuple(fields)], call.attrs, [kind])

    def _function(self, var: tvm.ir.GlobalVar, narrow: tuple[int, ...]) -> tvm.ir.GlobalVar:
        if (var, narrow) not in self._functions:
            func = stored_narrow(self._mod[var], narrow, self._stored, self._sums)
            self._functions[var, narrow] = self.builder_.add_func(func, var.name_hint)
        return self._functions[var, narrow]

    def _with_original_types(self, call: relax.Call) -> Any:
        """The call with float32 arguments if it had such arguments."""

        def original(argument: Any) -> Any:
            if isinstance(argument, relax.Tuple):
                return relax.Tuple([original(field) for field in argument.fields])
            visited = self.visit_expr(argument)
            return self._in_type(visited, WIDE) if _dtype(visited) == self._stored else visited

        return relax.Call(call.op, [original(arg) for arg in call.args], call.attrs, call.ty_args)

    def _in_type(self, value: Any, dtype: str) -> Any:
        """A value in another data type; a constant is converted at once."""
        if _dtype(value) == dtype:
            return value
        if isinstance(value, tvm.ir.GenericConst):
            return relax.const(value.value.numpy().astype(numpy_type(dtype)), dtype)
        if (value, dtype) not in self._converted:
            converted = self.builder_.emit_te(topi.cast, value, dtype, primfunc_name_hint="cast")
            self._converted[value, dtype] = converted
        return self._converted[value, dtype]


def _returned(func: relax.Function, values: dict[relax.Var, Any]) -> set[relax.Var]:
    """Variables that a function returns."""
    found: set[relax.Var] = set()

    def follow(value: Any) -> None:
        if isinstance(value, relax.Tuple):
            for field in value.fields:
                follow(field)
        elif isinstance(value, relax.Var) and value not in found:
            found.add(value)
            follow(values.get(value))

    follow(func.body.body)
    return found


def _is_call_tir(value: Any) -> bool:
    return isinstance(value, relax.Call) and value.op == _CALL_TIR


def _dtype(value: Any) -> str:
    return str(value.ty.dtype) if isinstance(getattr(value, "ty", None), relax.TensorType) else ""
