"""Elementwise operators: several operands, ends of the range, NaN."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .nodes import Graph, Node
from .rewriting import Rewrite


def _chain(operator: str) -> Rewrite:
    """Several operands as a chain of binary operators."""

    def rewrite(node: Node, g: Graph) -> Sequence[str] | None:
        first, *rest = node.inputs
        if operator == node.op and len(rest) <= 1:
            return None if rest else [g("Identity", first)]
        for other in rest:
            first = g(operator, first, other)
        return [first if rest else g("Identity", first)]

    return rewrite


def _mean(node: Node, g: Graph) -> Sequence[str]:
    total = node.inputs[0]
    for other in node.inputs[1:]:
        total = g("Add", total, other)
    return [g("Div", total, g.constant(len(node.inputs), node.dtype(0)))]


def _is_infinite(node: Node, g: Graph) -> Sequence[str] | None:
    """Infinities of one sign."""
    below, above = node.get("detect_negative", 1), node.get("detect_positive", 1)
    if below and above:
        return None
    dtype = node.dtype(0)
    if not below and not above:
        return [g("Less", node.x(0), g.constant(-np.inf, dtype))]
    return [g("Equal", node.x(0), g.constant(np.inf if above else -np.inf, dtype))]


def _elu(node: Node, g: Graph) -> Sequence[str]:
    """x above 0, alpha (exp(x) - 1) below; the exponential of a large x does not overflow."""
    x, dtype = node.x(0), node.dtype(0)
    zero, one = g.constant(0, dtype), g.constant(1, dtype)
    low = g("Sub", g("Exp", g("Min", x, zero)), one)
    scaled = g("Mul", low, g.constant(node.get("alpha", 1.0), dtype))
    return [g("Where", g("Greater", x, zero), x, scaled)]


def _celu(node: Node, g: Graph) -> Sequence[str]:
    x, dtype, alpha = node.x(0), node.dtype(0), node.get("alpha", 1.0)
    zero, one, factor = g.constant(0, dtype), g.constant(1, dtype), g.constant(alpha, dtype)
    low = g("Sub", g("Exp", g("Div", g("Min", x, zero), factor)), one)
    return [g("Where", g("Greater", x, zero), x, g("Mul", low, factor))]


def _selu(node: Node, g: Graph) -> Sequence[str]:
    x, dtype = node.x(0), node.dtype(0)
    alpha, gamma = node.get("alpha", 1.67326319217681884765625), node.get("gamma", 1.05070102214813232421875)
    zero, one = g.constant(0, dtype), g.constant(1, dtype)
    low = g("Mul", g("Sub", g("Exp", g("Min", x, zero)), one), g.constant(alpha, dtype))
    return [g("Mul", g("Where", g("Greater", x, zero), x, low), g.constant(gamma, dtype))]


def _mish(node: Node, g: Graph) -> Sequence[str]:
    return [g("Mul", node.x(0), g("Tanh", g("Softplus", node.x(0))))]


def _thresholded_relu(node: Node, g: Graph) -> Sequence[str]:
    x, dtype = node.x(0), node.dtype(0)
    above = g("Greater", x, g.constant(node.get("alpha", 1.0), dtype))
    return [g("Where", above, x, g.constant(0, dtype))]


def _shrink(node: Node, g: Graph) -> Sequence[str]:
    """Works for integers, whose threshold may have a fraction."""
    x, dtype = node.x(0), node.dtype(0)
    wide = x if dtype.kind == "f" else g.cast(x, np.float32)
    kind = dtype if dtype.kind == "f" else np.dtype(np.float32)
    limit, bias = node.get("lambd", 0.5), g.constant(node.get("bias", 0.0), kind)
    low = g("Where", g("Less", wide, g.constant(-limit, kind)), g("Add", wide, bias), g.constant(0, kind))
    found = g("Where", g("Greater", wide, g.constant(limit, kind)), g("Sub", wide, bias), low)
    return [found if kind == dtype else g.cast(found, dtype)]


def _hard_sigmoid(node: Node, g: Graph) -> Sequence[str]:
    x, dtype = node.x(0), node.dtype(0)
    line = g("Mul", x, g.constant(node.get("alpha", 0.2), dtype))
    line = g("Add", line, g.constant(node.get("beta", 0.5), dtype))
    return [g("Min", g("Max", line, g.constant(0, dtype)), g.constant(1, dtype))]


def _hard_swish(node: Node, g: Graph) -> Sequence[str]:
    return [g("Mul", node.x(0), g("HardSigmoid", node.x(0), alpha=1 / 6, beta=0.5))]


def _swish(node: Node, g: Graph) -> Sequence[str]:
    x, alpha = node.x(0), node.get("alpha", 1.0)
    inner = x if alpha == 1 else g("Mul", x, g.constant(alpha, node.dtype(0)))
    return [g("Mul", x, g("Sigmoid", inner))]


def _power(node: Node, g: Graph) -> Sequence[str] | None:
    """The exponent in the data type of the base."""
    base, exponent = node.dtype(0), node.dtype(1)
    if base.kind in "iu" and exponent.kind in "iu":  # exact up to 2 ** 53, as in PyTorch's and NumPy's tests
        wide = g("Pow", g.cast(node.x(0), np.float64), g.cast(node.x(1), np.float64))
        return [g.cast(wide, base)]
    if base == exponent:
        return None
    if base.kind == "f" or exponent.kind in "iu":
        return [g("Pow", node.x(0), g.cast(node.x(1), base))]
    return [g.cast(g("Pow", g.cast(node.x(0), exponent), node.x(1)), base)]


def _remainder(node: Node, g: Graph) -> Sequence[str]:
    """The remainder of floats with the sign of the divisor, from the one with the sign of the dividend."""
    dtype, divisor = node.dtype(0), node.x(1)
    zero = g.constant(0, dtype)
    found = g("Mod", node.x(0), divisor, fmod=1)
    other_side = g("Xor", g("Less", found, zero), g("Less", divisor, zero))
    moves = g("And", other_side, g("Not", g("Equal", found, zero)))
    return [g("Where", moves, g("Add", found, divisor), found)]


def _modulo(node: Node, g: Graph) -> Sequence[str] | None:
    if node.dtype(0).kind != "f":
        return _by_integers(node, g)
    return None if node.get("fmod", 0) else _remainder(node, g)


def _prelu(node: Node, g: Graph) -> Sequence[str]:
    """`PRelu` with slopes of any shape that broadcasts, or one for each channel."""
    x, slope, zero = node.shape(0), node.x(1), g.constant(0, node.dtype(0))
    if node.rank(1) == 1 and len(x) > 1 and node.shape(1)[0] not in (1, x[-1]):
        slope = g.reshape(slope, [-1, *[1] * (len(x) - 2)])
    return [g("Where", g("Less", node.x(0), zero), g("Mul", node.x(0), slope), node.x(0))]


def _by_integers(node: Node, g: Graph) -> Sequence[str] | None:
    """Divides by 1 in place of 0, which would end the process; ONNX defines no quotient by 0."""
    dtype, divisor = node.dtype(1), node.constant(1)
    if dtype.kind not in "iu" or (divisor is not None and divisor.all()) or node.x(1).endswith(_NOT_ZERO):
        return None
    zero, one = g.constant(0, dtype), g.constant(1, dtype)
    name = g("Where", g("Equal", node.x(1), zero), one, node.x(1), output=f"{g.fresh()}{_NOT_ZERO}")
    attributes = {"fmod": node.get("fmod", 0)} if node.op == "Mod" else {}
    return [g(node.op, node.x(0), name, **attributes)]


_NOT_ZERO = "/not_zero"
"""End of the name of a divisor without zeros."""


ELEMENTWISE: Mapping[str, Callable[[Node, Graph], Sequence[str] | None]] = {
    "Max": _chain("Max"),
    "Min": _chain("Min"),
    "Sum": _chain("Add"),
    "Mean": _mean,
    "IsInf": _is_infinite,
    "Elu": _elu,
    "Celu": _celu,
    "Selu": _selu,
    "Mish": _mish,
    "ThresholdedRelu": _thresholded_relu,
    "Shrink": _shrink,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Swish": _swish,
    "Pow": _power,
    "Div": _by_integers,
    "Mod": _modulo,
    "PRelu": _prelu,
}
"""Rewrites by operator."""
