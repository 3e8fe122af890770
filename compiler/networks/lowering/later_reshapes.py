"""Reshapes after element-wise steps, so that these are fused with the product in front of them.

PyTorch exports a linear layer as a product of matrices between two reshapes. TVM fuses no step after a
reshape with the product: an activation, a residual or the scale and the mask of attention would read and
write the whole array once more. A reshape that is left between functions is a view and costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from .rewriting import mutated, operator_of

_UNARY = {
    f"relax.{name}"
    for name in (
        *("astype", "clip", "erf", "exp", "nn.gelu", "nn.gelu_tanh", "nn.leakyrelu", "nn.relu", "nn.silu"),
        *("nn.softplus", "negative", "rsqrt", "sigmoid", "sqrt", "tanh"),
    )
}

_BINARY = {
    f"relax.{name}" for name in ("add", "divide", "maximum", "minimum", "multiply", "power", "subtract")
}


@tvm.transform.module_pass(opt_level=0, name="LaterReshapes")
def later_reshapes(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    """Pass over Relax functions in A-normal form."""
    return mutated(mod, _LaterReshapes(mod))


@mutator
class _LaterReshapes(PyExprMutator):
    """Computes element-wise steps of a reshaped value before the reshape; reshapes in a row are one."""

    def visit_call_(self, call: relax.Call) -> Any:
        """The reshape of the step, or the call unchanged."""
        arguments = [self.visit_expr(argument) for argument in call.args]
        changed = relax.Call(call.op, arguments, call.attrs, call.ty_args)
        name, shape = operator_of(call), _shape(call)
        if shape is None:
            return changed
        if name == "relax.reshape":
            return self._reshaped(arguments[0], shape)
        values = arguments if name in _BINARY else arguments[:1] if name in _UNARY else []
        for place, value in enumerate(values):
            source = self._source(value)
            if source is None or not _same(_shape(value), shape):
                continue
            before = list(arguments)
            before[place] = source
            for other in range(len(values)):
                if other != place:
                    before[other] = self._fitted(values[other], shape, _shape(source) or [])
            if all(argument is not None for argument in before):
                step = self.builder_.emit(relax.Call(call.op, before, call.attrs, call.ty_args))
                return self._reshaped(step, shape)
        return changed

    def _source(self, value: relax.Expr) -> relax.Expr | None:
        """The value in front of a reshape; None for another value."""
        bound = self.lookup_binding(value) if isinstance(value, relax.Var) else None
        if not isinstance(bound, relax.Call) or operator_of(bound) != "relax.reshape":
            return None
        return bound.args[0] if _shape(bound.args[0]) else None

    def _fitted(self, value: relax.Expr, shape: Sequence[Any], before: Sequence[Any]) -> relax.Expr | None:
        """The other operand of a step that gives `before` in place of `shape`; None if it does not fit."""
        own = _shape(value)
        if own is None:
            return None
        if _same(own, shape):
            return self._given(value, list(before))
        added = len(shape) - len(before)
        if added >= 0 and _same(shape[added:], before) and _same(shape[:added], [1] * added):
            return self._given(value, own[max(0, len(own) - len(before)) :])
        same_rows = len(own) == 0 or (_same(own, shape[-1:]) and _same(own, before[-1:]))
        return value if same_rows else None

    def _given(self, value: relax.Expr, shape: list[Any]) -> relax.Expr:
        """A value of this shape, by a reshape if it has another one."""
        found = self._reshaped(value, shape)
        return found if isinstance(found, relax.Var) or found is value else self.builder_.emit(found)

    def _reshaped(self, value: relax.Expr, shape: list[Any]) -> relax.Expr:
        """A reshape of a value, or of what that was reshaped from; none to the shape that it has."""
        source = self._source(value)
        value = value if source is None else source
        return value if _same(_shape(value), shape) else relax.op.reshape(value, shape)


def _shape(value: relax.Expr) -> list[Any] | None:
    """Extents of a tensor: numbers, or expressions of symbols; None for another value or unknown extents."""
    kind = getattr(value, "ty", None)
    if not isinstance(kind, relax.TensorType) or kind.shape is None:
        return None
    return [getattr(extent, "value", extent) for extent in kind.shape]


def _same(left: Sequence[Any] | None, right: Sequence[Any]) -> bool:
    """Whether two shapes have the same extents."""
    return (
        left is not None
        and len(left) == len(right)
        and all(
            one == other if isinstance(one, int) else tvm_ffi.structural_equal(one, other)
            for one, other in zip(left, right, strict=True)
        )
    )
