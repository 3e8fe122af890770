"""Transcendental functions as arithmetic, which compilers vectorise; calls of a C library they do not.

TVM lowers `exp`, `tanh` and `erf` on a CPU to a call for each element: the GELU of BERT-base then takes a
seventh of its latency. `topi.fast_*` compute them by polynomials, as exactly as float32 can tell: within 3e-7
of its value for `exp`, and within 4e-7 for the others. Networks (`networks.lowering`) and sampled operators
share these functions, on every target, so that a task of either is the same.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import te, tirx, topi


def exp(x: te.Tensor) -> te.Tensor:
    """Exponential of each element."""
    return _in_float32(topi.fast_exp, x)


def tanh(x: te.Tensor) -> te.Tensor:
    """Hyperbolic tangent of each element."""
    return _in_float32(topi.fast_tanh, x)


def erf(x: te.Tensor) -> te.Tensor:
    """Error function of each element."""
    return _in_float32(topi.fast_erf, x)


def sigmoid(x: te.Tensor) -> te.Tensor:
    """1 / (1 + exp(-x))."""
    one = tirx.const(1.0, x.dtype)
    return topi.divide(one, topi.add(one, exp(topi.negative(x))))


def silu(x: te.Tensor) -> te.Tensor:
    """x * sigmoid(x)."""
    return topi.multiply(x, sigmoid(x))


def gelu(x: te.Tensor) -> te.Tensor:
    """x * (0.5 + 0.5 * erf(x / sqrt(2)))."""
    half = tirx.const(0.5, x.dtype)
    scaled = topi.multiply(x, tirx.const(0.5**0.5, x.dtype))
    return topi.multiply(x, topi.add(half, topi.multiply(erf(scaled), half)))


def _in_float32(function: Callable[[te.Tensor], te.Tensor], x: te.Tensor) -> te.Tensor:
    """The polynomials are float32's; float16 is computed there, and float64 by the library."""
    if x.dtype == "float16":
        return topi.cast(function(topi.cast(x, "float32")), x.dtype)
    return function(x)
