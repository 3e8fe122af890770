"""Output channels that are no whole vectors, filled up if only further layers read them.

An instruction of a template computes whole vectors of output channels, and a GPU stores eight of 16 bits at
once. For vectors of 16 a layer of 24 channels gets 32, the new ones with filters of zeros, and with zeros in
the weights of the layers that read them. What is between two layers, such as a bias, an activation or the sum
with another branch, has the new channels too, whose values nothing depends on (Bolt, section 3.2.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.tirx import IntImm

from .rewriting import extents_of, has_fixed_shape, operator_of

LANES = 16
"""Channels of a vector of a CPU's instructions."""

MOST = 1.5
"""Channels afterwards to those before, at most."""

MOST_CROPPED = 1 << 14
"""Elements at most of values that something else reads, and that are copied without the new channels."""

ELEMENTWISE = {
    f"relax.{name}"
    for name in (
        *("add", "subtract", "multiply", "minimum", "maximum", "clip", "round", "astype"),
        *("nn.relu", "nn.silu", "nn.gelu", "nn.leakyrelu", "sigmoid", "tanh"),
    )
}
"""Operators that compute each channel on its own."""


def widened_channels(lanes: int) -> Any:
    """Pass over Relax functions with layers of constant weights, convolutions of NHWC and HWIO.

    `lanes` is the number of channels of a whole vector.
    """

    def widened(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        return _widened(mod, lanes)

    return tvm.transform.module_pass(widened, opt_level=0, name="WidenedChannels")


def _widened(mod: tvm.IRModule, lanes: int) -> tvm.IRModule:
    changing = _Widening(mod)
    for var, func in mod.functions_items():
        if isinstance(func, relax.Function):
            changing.reading = _ValueUses.of(func)
            changing.wide = _wide_channels(changing.reading, lanes)
            if changing.wide:
                changing.builder_.update_func(var, changing.visit_expr(func))
    return changing.builder_.get()


@dataclass
class _ValueUses:
    """Values of a function, and who reads them."""

    calls: dict[relax.Var, relax.Call] = field(default_factory=dict)
    """Call by the variable that it is bound to, in order."""
    readers: dict[relax.Var, list[relax.Var | None]] = field(default_factory=dict)
    """Variables whose calls read a variable; None for a tuple that does, and for the function's value."""
    fixed: set[relax.Var] = field(default_factory=set)
    """Variables that something else reads, such as another name of the same value."""
    returned: relax.Var | None = None
    """Variable that is the function's value; None where its value is a tuple."""

    @classmethod
    def of(cls, func: relax.Function) -> _ValueUses:
        found = cls()
        for block in func.body.blocks:
            for binding in block.bindings:
                value = binding.value
                if isinstance(value, relax.Call):
                    found.calls[binding.var] = value
                reader = binding.var if isinstance(value, relax.Call) else None
                for read in _variables(value):
                    found.readers.setdefault(read, []).append(reader)
                    if not isinstance(value, (relax.Call, relax.Tuple)):
                        found.fixed.add(read)
        for read in _variables(func.body.body):
            found.readers.setdefault(read, []).append(None)
        found.returned = func.body.body if isinstance(func.body.body, relax.Var) else None
        return found

    def group(self, start: relax.Var) -> list[relax.Var] | None:
        """Variables that have new channels if one has them; None where that cannot be."""
        members, seen, cropped = [start], {start}, 0
        for var in members:  # grows while it is read
            call = self.calls.get(var)
            if var in self.fixed or call is None or not (_is_layer(call) or _is_elementwise(call)):
                return None
            if self.is_returned(var) and len(self.readers[var]) > 1:
                return None  # its value is the one without new channels
            joined = [] if _is_layer(call) else [arg for arg in call.args if isinstance(arg, relax.Var)]
            for reader in self.readers.get(var, []):
                reading = None if reader is None else self.calls[reader]
                if reading is not None and _is_elementwise(reading):
                    joined.append(reader)
                elif reading is None or not _is_layer(reading) or not reading.args[0].same_as(var):
                    cropped += math.prod(extents_of(var)) if has_fixed_shape(var) else MOST_CROPPED + 1
            if any(_channels_of(other) != _channels_of(start) for other in joined):
                return None
            members += [other for other in dict.fromkeys(joined) if other not in seen]
            seen.update(joined)
        return members if cropped <= MOST_CROPPED else None

    def is_returned(self, var: relax.Var) -> bool:
        """Whether a variable is the function's value."""
        return self.returned is not None and self.returned.same_as(var)


def _wide_channels(reading: _ValueUses, lanes: int) -> dict[relax.Var, int]:
    """Channels of each variable that gets new ones."""
    found: dict[relax.Var, int] = {}
    for var, call in reading.calls.items():
        if var in found or not _is_layer(call):
            continue
        channels = _channels_of(var)
        whole = math.ceil(channels / lanes) * lanes
        if whole == channels or whole > MOST * channels:
            continue
        found |= dict.fromkeys(reading.group(var) or (), whole)
    return found


@mutator
class _Widening(PyExprMutator):
    """Fills up the values of `wide`, and crops them for all others that read them."""

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self.reading = _ValueUses()
        self.wide: Mapping[relax.Var, int] = {}
        self._bound: relax.Var | None = None

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """Notes the variable whose value is visited."""
        self._bound = binding.var
        super().visit_var_binding_(binding)

    def visit_call_(self, call: relax.Call) -> Any:
        """A call with new channels, or one that reads values without them."""
        whole = self.wide.get(self._bound)
        if _is_layer(call):
            data, shape = call.args[0], extents_of(call.args[1])
            *outer, inputs, outputs = shape
            missing = [*[0] * len(outer), self.wide.get(data, inputs) - inputs, (whole or outputs) - outputs]
            args = [self.visit_expr(data), _filled(call.args[1], missing)]
        elif whole is not None:
            args = [self._with_channels(arg, whole) for arg in call.args]
        else:
            args = [self._cropped(arg) for arg in call.args]
        changed = relax.Call(call.op, args, call.attrs, call.ty_args)
        if whole is not None and self.reading.is_returned(self._bound):
            return _without_new_channels(self.builder_.emit(changed), self._bound)
        return changed

    def visit_tuple_(self, fields: relax.Tuple) -> Any:
        """A tuple of values without new channels."""
        return relax.Tuple([self._cropped(value) for value in fields.fields])

    def _with_channels(self, argument: Any, whole: int) -> Any:
        if not isinstance(argument, tvm.ir.GenericConst):
            return self.visit_expr(argument)
        shape = extents_of(argument)
        lacking = whole - shape[-1] if shape and shape[-1] > 1 else 0
        return _filled(argument, [*[0] * (len(shape) - 1), lacking]) if lacking else argument

    def _cropped(self, argument: Any) -> Any:
        visited = self.visit_expr(argument)
        if not isinstance(argument, relax.Var) or argument not in self.wide:
            return visited
        return self.builder_.emit(_without_new_channels(visited, argument))


def _without_new_channels(value: relax.Expr, before: relax.Var) -> relax.Expr:
    """The channels that `before` has."""
    return relax.op.strided_slice(value, [before.ty.ndim - 1], [0], [_channels_of(before)])


def _channels_of(value: relax.Expr) -> int:
    """Extent of the last axis; 0 if that is symbolic, or without axes."""
    shape = value.ty.shape
    last = shape[-1] if len(shape) else None
    return int(last) if isinstance(last, IntImm) else 0


def _is_layer(call: relax.Call) -> bool:
    """Whether all output channels read all input channels, by a constant weight [..., inputs, outputs]."""
    name = operator_of(call)
    if len(call.args) < 2 or not isinstance(call.args[1], tvm.ir.GenericConst):
        return False
    if name == "relax.matmul":
        return len(extents_of(call.args[1])) == 2
    if name != "relax.nn.conv2d":
        return False
    layouts = str(call.attrs.data_layout), str(call.attrs.kernel_layout), str(call.attrs.out_layout)
    return layouts == ("NHWC", "HWIO", "NHWC") and int(call.attrs.groups) == 1


def _is_elementwise(call: relax.Call) -> bool:
    return operator_of(call) in ELEMENTWISE


def _filled(constant: Any, missing: Sequence[int]) -> Any:
    """The constant with so many zeros more after each axis."""
    values = constant.value.numpy()
    return relax.const(np.pad(values, [(0, count) for count in missing]), str(constant.ty.dtype))


def _variables(value: Any) -> Iterator[relax.Var]:
    if isinstance(value, relax.Var):
        yield value
    for part in (*getattr(value, "args", ()), *getattr(value, "fields", ())):
        yield from _variables(part)
