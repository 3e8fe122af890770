"""Operators that compute element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

import torch
from torch.nn import functional

from .call import Convert, FixedExtentsError, OperatorCall, torch_type


def _unary(function: Callable[[torch.Tensor], torch.Tensor]) -> Convert:
    return lambda call: function(call.tensor())


def _binary(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Convert:
    return lambda call: function(call.tensor(0), call.tensor(1))


def _several(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Convert:
    return lambda call: reduce(function, call.given())


def _divided(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    whole = not left.is_floating_point()
    return torch.div(left, right, rounding_mode="trunc" if whole else None)


def _mod(call: OperatorCall) -> torch.Tensor:
    remainder = torch.fmod if call.get("fmod", 0) else torch.remainder
    return remainder(call.tensor(0), call.tensor(1))


def _pow(call: OperatorCall) -> torch.Tensor:
    exponent = call.constant(1)
    if exponent is not None and exponent.size == 1 and exponent.ndim <= len(call.tensor().shape):
        return torch.pow(call.tensor(), exponent.item())
    return torch.pow(call.tensor(), call.tensor(1).to(call.tensor().dtype))


def _cast(call: OperatorCall) -> torch.Tensor:
    return call.tensor().to(torch_type(call.onnx, call.get("to")))


def _clip(call: OperatorCall) -> torch.Tensor:
    x = call.tensor()
    for place, name, bounded in ((1, "min", torch.maximum), (2, "max", torch.minimum)):
        if call.has(place) and not call.is_known(place):
            x = bounded(x, call.tensor(place))
        elif (bound := call.number(place) if call.has(place) else call.get(name)) is not None:
            x = torch.clamp(x, **{name: bound})
    return x


def _gelu(call: OperatorCall) -> torch.Tensor:
    return functional.gelu(call.tensor(), approximate=call.get("approximate", "none"))


def _hard_sigmoid(call: OperatorCall) -> torch.Tensor:
    return torch.clamp(call.get("alpha", 0.2) * call.tensor() + call.get("beta", 0.5), 0, 1)


def _is_inf(call: OperatorCall) -> torch.Tensor:
    x = call.tensor()
    positive, negative = call.get("detect_positive", 1), call.get("detect_negative", 1)
    if positive and negative:
        return torch.isinf(x)
    return torch.isposinf(x) if positive else torch.isneginf(x)


def _dropout(call: OperatorCall) -> torch.Tensor:
    if call.wants(1) or (call.has(2) and call.number(2)):
        raise FixedExtentsError("it is in training mode, or returns its mask")
    return call.tensor()


def _prelu(call: OperatorCall) -> torch.Tensor:
    x, slope = call.tensor(0), call.tensor(1)
    return torch.where(x < 0, x * slope, x)


def _softplus(call: OperatorCall) -> torch.Tensor:
    return functional.softplus(call.tensor(), threshold=1e4)


def _mean(call: OperatorCall) -> torch.Tensor:
    return reduce(torch.add, call.given()) / len(call.values)


ELEMENTWISE: Mapping[str, Convert] = {
    **{
        name: _unary(getattr(torch, function))
        for name, function in {
            **{"Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh"},
            **{"Atan": "atan", "Atanh": "atanh", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf"},
            **{"Exp": "exp", "Floor": "floor", "IsNaN": "isnan", "Log": "log", "Neg": "neg"},
            **{"Not": "logical_not", "Reciprocal": "reciprocal", "Relu": "relu", "Round": "round"},
            **{"Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Sqrt": "sqrt"},
            **{"Tan": "tan", "Tanh": "tanh", "BitwiseNot": "bitwise_not"},
        }.items()
    },
    **{
        name: _binary(getattr(torch, function))
        for name, function in {
            **{"Add": "add", "Sub": "sub", "Mul": "mul", "And": "logical_and", "Or": "logical_or"},
            **{"Xor": "logical_xor", "Equal": "eq", "Greater": "gt", "GreaterOrEqual": "ge", "Less": "lt"},
            **{"LessOrEqual": "le", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or"},
            "BitwiseXor": "bitwise_xor",
        }.items()
    },
    "Cast": _cast,
    "CastLike": lambda call: call.tensor(0).to(call.tensor(1).dtype),
    "Clip": _clip,
    "Div": _binary(_divided),
    "Elu": lambda call: functional.elu(call.tensor(), call.get("alpha", 1.0)),
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _unary(functional.hardswish),
    "Identity": lambda call: call.values[0],
    "Dropout": _dropout,
    "IsInf": _is_inf,
    "LeakyRelu": lambda call: functional.leaky_relu(call.tensor(), call.get("alpha", 0.01)),
    "Max": _several(torch.maximum),
    "Mean": _mean,
    "Min": _several(torch.minimum),
    "Mish": _unary(functional.mish),
    "Mod": _mod,
    "PRelu": _prelu,
    "Pow": _pow,
    "Softplus": _softplus,
    "Softsign": _unary(functional.softsign),
    "Sum": _several(torch.add),
    "Where": lambda call: torch.where(*call.given()),
}
"""Conversions by operator."""
