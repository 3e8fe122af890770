"""Arithmetic with numbers that follow from extents, on arrays of numbers and symbols."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import torch

from .call import MOST_NUMBERS, Convert, FixedExtentsError, Known, OperatorCall, known


def _each(function: Callable[..., Any]) -> Convert:
    """An operator that computes element by element."""

    def convert(call: OperatorCall) -> Known:
        values = _operands(call)
        return known(np.frompyfunc(function, len(values), 1)(*values))

    return convert


def _of_all(function: Callable[[Any, Any], Any]) -> Convert:
    """An operator that computes element by element over any number of operands."""
    return lambda call: known(reduce(np.frompyfunc(function, 2, 1), _operands(call)))


def _operands(call: OperatorCall) -> list[Known]:
    return [call.known(place) for place in range(len(call.values))]


def plain(numbers: Sequence[Any]) -> list[int]:
    """Whole numbers without symbols. Raises FixedExtentsError."""
    if not all(isinstance(one, int | float) for one in numbers):
        raise FixedExtentsError("positions depend on an extent")
    return [int(one) for one in numbers]


def _divided(left: Any, right: Any) -> Any:
    """A quotient; one of whole numbers is rounded towards 0, and extents are positive."""
    if any(isinstance(one, float | torch.SymFloat) for one in (left, right)):
        return left / right
    if isinstance(left, int) and isinstance(right, int) and (left < 0) != (right < 0):
        return -(-left // right)
    return left // right


def _root(value: Any) -> Any:
    return torch.sym_sqrt(value) if isinstance(value, torch.SymInt | torch.SymFloat) else math.sqrt(value)


def _cast(call: OperatorCall) -> Known:
    kind = np.dtype(call.onnx.helper.tensor_dtype_to_np_dtype(call.get("to"))).kind
    change: Callable[[Any], Any]
    if kind == "b":
        change = bool
    elif kind == "f":
        change = _as_float
    else:
        change = _as_int
    return known(np.frompyfunc(change, 1, 1)(call.known(0)))


def _as_float(value: Any) -> Any:
    return torch.sym_float(value) if isinstance(value, torch.SymInt) else float(value)


def _as_int(value: Any) -> Any:
    if isinstance(value, torch.SymInt):
        return value
    return torch.sym_int(value) if isinstance(value, torch.SymFloat) else int(value)


def _rounded(direction: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def change(value: Any) -> Any:
        if isinstance(value, torch.SymFloat):
            raise FixedExtentsError("it rounds a fraction of an extent")
        return float(direction(value))

    return change


def _gather(call: OperatorCall) -> Known:
    places = call.known(1)
    taken = np.array(plain(list(places.reshape(-1))), np.int64).reshape(places.shape)
    return known(np.take(call.known(0), taken, axis=call.get("axis", 0)))


def _slice(call: OperatorCall) -> Known:
    x = call.known(0)
    starts, ends = (plain(call.numbers(place)) for place in (1, 2))
    axes = plain(call.numbers(3)) if call.has(3) else list(range(len(starts)))
    steps = plain(call.numbers(4)) if call.has(4) else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        places = range(*slice(start, end, step).indices(x.shape[axis]))
        x = np.take(x, list(places), axis=axis)
    return known(x)


def _reduced(function: Callable[[Any, Any], Any]) -> Convert:
    def convert(call: OperatorCall) -> Known:
        x, axes = call.known(0), call.axes(1)
        if axes is not None and [axis % max(x.ndim, 1) for axis in axes] != list(range(x.ndim)):
            raise FixedExtentsError("it reduces numbers over some of their axes")
        found = known(reduce(function, x.reshape(-1)))
        return found.reshape([1] * x.ndim) if call.get("keepdims", 1) else found

    return convert


def _squeezed(call: OperatorCall) -> Known:
    axes = call.axes(1)
    return np.squeeze(call.known(0), None if axes is None else tuple(axes))


def _expanded(call: OperatorCall) -> Known:
    shape = np.broadcast_shapes(call.known(0).shape, tuple(plain(call.numbers(1))))
    return np.broadcast_to(call.known(0), shape)


def _reshaped(call: OperatorCall) -> Known:
    return call.known(0).reshape(plain(call.numbers(1)))


def _filled(call: OperatorCall) -> Known:
    shape, value = plain(call.numbers(0)), call.get("value")
    if math.prod(shape) > MOST_NUMBERS:
        raise FixedExtentsError("it is large")
    return np.full(shape, 0.0 if value is None else value.reshape(-1)[0].item(), dtype=object)


EXTENTS: Mapping[str, Convert] = {
    "Abs": _each(abs),
    "Add": _each(operator.add),
    "And": _each(lambda left, right: bool(left) and bool(right)),
    "Cast": _cast,
    "Ceil": _each(_rounded(math.ceil)),
    "Concat": lambda call: np.concatenate(_operands(call), axis=call.get("axis")),
    "ConstantOfShape": _filled,
    "Div": _each(_divided),
    "Equal": _each(lambda left, right: bool(left == right)),
    "Expand": _expanded,
    "Floor": _each(_rounded(math.floor)),
    "Gather": _gather,
    "Greater": _each(lambda left, right: bool(left > right)),
    "GreaterOrEqual": _each(lambda left, right: bool(left >= right)),
    "Identity": lambda call: call.known(0),
    "Less": _each(lambda left, right: bool(left < right)),
    "LessOrEqual": _each(lambda left, right: bool(left <= right)),
    "Max": _of_all(torch.sym_max),
    "Min": _of_all(torch.sym_min),
    "Mod": _each(operator.mod),
    "Mul": _each(operator.mul),
    "Neg": _each(operator.neg),
    "Not": _each(operator.not_),
    "Or": _each(lambda left, right: bool(left) or bool(right)),
    "Reciprocal": _each(lambda value: 1 / value),
    "ReduceMax": _reduced(torch.sym_max),
    "ReduceMin": _reduced(torch.sym_min),
    "ReduceProd": _reduced(operator.mul),
    "ReduceSum": _reduced(operator.add),
    "Reshape": _reshaped,
    "Slice": _slice,
    "Sqrt": _each(_root),
    "Squeeze": _squeezed,
    "Sub": _each(operator.sub),
    "Unsqueeze": lambda call: np.expand_dims(call.known(0), tuple(call.axes(1) or ())),
    "Where": _each(lambda condition, left, right: left if condition else right),
}
"""Conversions of operators whose operands are all known."""
