"""Activations of recurrent layers as expressions of TIR; the names are ONNX's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import tirx

from .cell import Activation


def activated(activation: Activation, x: Any, clip: float | None = None) -> Any:
    """The activation of a float32 expression, whose absolute value is bounded by `clip` first."""
    if clip is not None:
        x = tirx.max(tirx.min(x, _number(clip)), _number(-clip))
    return EXPRESSIONS[activation.name](x, _number(activation.alpha), _number(activation.beta))


def _number(value: float) -> Any:
    return tirx.const(value, "float32")


def _softplus(x: Any, *_: Any) -> Any:
    """log(1 + e^x), whose exponential is at most 1."""
    return tirx.max(x, _number(0)) + tirx.log(_number(1) + tirx.exp(_number(0) - tirx.abs(x)))


EXPRESSIONS: Mapping[str, Callable[[Any, Any, Any], Any]] = {
    "Sigmoid": lambda x, *_: tirx.sigmoid(x),
    "Tanh": lambda x, *_: tirx.tanh(x),
    "Relu": lambda x, *_: tirx.max(x, _number(0)),
    "LeakyRelu": lambda x, alpha, _: tirx.Select(x < 0, alpha * x, x),
    "ThresholdedRelu": lambda x, alpha, _: tirx.Select(x > alpha, x, _number(0)),
    "Elu": lambda x, alpha, _: tirx.Select(x < 0, alpha * (tirx.exp(x) - _number(1)), x),
    "HardSigmoid": lambda x, alpha, beta: tirx.max(tirx.min(alpha * x + beta, _number(1)), _number(0)),
    "Softsign": lambda x, *_: x / (_number(1) + tirx.abs(x)),
    "Softplus": _softplus,
}
"""Expression of each activation and its parameters alpha and beta."""
