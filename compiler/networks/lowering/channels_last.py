"""Channels last where ConvertLayout gives up: in shuffles of channels, and around split and joined values.

ConvertLayout keeps a reshape unchanged, so that a network with shuffles of channels (ShuffleNet) turns images
to channels first before each one, and back after it. A shuffle of the last axis needs no turn.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from .rewriting import extents_of, has_fixed_shape, mutated, operator_of

_FIRST, _LAST = (0, 3, 1, 2), (0, 2, 3, 1)
"""Axes that turn an image to channels first, and to channels last."""

_SHUFFLE = (0, 2, 1, 3, 4)
"""Axes that exchange groups of channels and channels of a group."""


@tvm.transform.module_pass(opt_level=0, name="ShufflesLast")
def shuffles_last(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    """Pass after ConvertLayout, over Relax functions in A-normal form."""
    return mutated(mod, _ShufflesLast(mod))


@mutator
class _ShufflesLast(PyExprMutator):
    """Emits values of channels first a second time with channels last, where these cost no turn.

    Each reader takes the form that it wants; the other one is dead code if nothing reads it.
    """

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self._last: dict[relax.Var, Any] = {}
        """The same image, or tuple of images, with channels last."""
        self._groups: dict[relax.Var, tuple[Any, int]] = {}
        """Image with channels last, and groups, of a value [images, groups, channels, rows, columns]."""
        self._shuffled: dict[relax.Var, tuple[Any, int]] = {}
        """The same of a value [images, channels, groups, rows, columns]."""
        self._bound: relax.Var | None = None

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """Notes the variable whose value is visited."""
        self._bound = binding.var
        super().visit_var_binding_(binding)

    def visit_call_(self, call: relax.Call) -> Any:
        """The call unchanged, or its input turned back to channels last."""
        changed = relax.Call(call.op, [self.visit_expr(arg) for arg in call.args], call.attrs, call.ty_args)
        match operator_of(call):
            case "relax.permute_dims":
                axes = None if call.attrs.axes is None else tuple(int(axis) for axis in call.attrs.axes)
                if axes == _FIRST:
                    self._note(changed.args[0])
                elif axes == _LAST and call.args[0] in self._last:
                    return self._last[call.args[0]]
                elif axes == _SHUFFLE and call.args[0] in self._groups:
                    self._shuffled[self._bound] = self._groups[call.args[0]]
            case "relax.reshape":
                self._reshaped(call)
            case "relax.split" if call.args[0] in self._last and int(call.attrs.axis) == 1:
                parts = call.attrs.indices_or_sections
                self._note(relax.op.split(self._last[call.args[0]], _whole(parts), 3))
            case "relax.concat" if int(call.attrs.axis) == 1 and isinstance(call.args[0], relax.Tuple):
                images = [self._last.get(image) for image in call.args[0].fields]
                if None not in images:
                    self._note(relax.op.concat(images, 3))
        return changed

    def visit_tuple_getitem_(self, item: relax.TupleGetItem) -> Any:
        """An image of a tuple."""
        if item.tuple_value in self._last:
            self._note(relax.TupleGetItem(self._last[item.tuple_value], item.index))
        return super().visit_tuple_getitem_(item)

    def _note(self, image: Any) -> None:
        self._last[self._bound] = image if isinstance(image, relax.Var) else self.builder_.emit(image)

    def _reshaped(self, call: relax.Call) -> None:
        """Follows a shuffle from the groups of channels to channels again."""
        data = call.args[0]
        if not has_fixed_shape(data) or not has_fixed_shape(self._bound):
            return
        shape = extents_of(self._bound)
        if data in self._last and len(shape) == 5 and extents_of(data)[2:] == shape[3:]:
            images, groups, channels = shape[:3]
            if (images, groups * channels) == tuple(extents_of(data)[:2]):
                self._groups[self._bound] = self._last[data], groups
        elif data in self._shuffled and len(shape) == 4:
            image, groups = self._shuffled[data]
            images, channels, *pixels = shape
            if [images, *pixels, channels] == extents_of(image):
                grouped = relax.op.reshape(image, (images, *pixels, groups, channels // groups))
                exchanged = relax.op.permute_dims(self.builder_.emit(grouped), [0, 1, 2, 4, 3])
                joined = relax.op.reshape(self.builder_.emit(exchanged), (images, *pixels, channels))
                self._note(joined)


def _whole(parts: Any) -> Any:
    return int(parts) if isinstance(parts, int) else [int(part) for part in parts]
