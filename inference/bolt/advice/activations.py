"""Activations that may follow a layer, as steps that its task fuses (Bolt section 3.3, first principle)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tvm import te, tirx, topi

from ....compiler.operators.shared.epilogue import fuse
from ....errors import UserError

NONE = "none"
"""Name for no activation."""

Activation = Callable[[te.Tensor], te.Tensor]
"""Applies the activation to a tensor of any shape."""


class UnknownActivationError(UserError, ValueError):
    """No activation has this name."""


def _identity(x: te.Tensor) -> te.Tensor:
    return x


def _step(name: str, x: te.Tensor) -> te.Tensor:
    """A step that the epilogue of operators supports."""
    return fuse(x, name, ())[1]


def _shifted_relu6(x: te.Tensor) -> te.Tensor:
    """min(max(x + 3, 0), 6), with the same steps as the import of PyTorch's Hardswish."""
    shifted = topi.add(x, tirx.const(3.0, x.dtype))
    return topi.clip(topi.clip(shifted, 0.0, math.inf), -math.inf, 6.0)


def _hardswish(x: te.Tensor) -> te.Tensor:
    return topi.divide(topi.multiply(x, _shifted_relu6(x)), tirx.const(6.0, x.dtype))


def _hardsigmoid(x: te.Tensor) -> te.Tensor:
    return topi.divide(_shifted_relu6(x), tirx.const(6.0, x.dtype))


def _softplus(x: te.Tensor) -> te.Tensor:
    """max(x, 0) - log(sigmoid(|x|)), which equals log(1 + exp(x)) and never overflows.

    MetaSchedule inlines a sigmoid into the loops of a layer, but no exponential function.
    """
    return topi.subtract(topi.nn.relu(x), topi.log(topi.sigmoid(topi.abs(x))))


ACTIVATIONS: Mapping[str, Activation] = {
    NONE: _identity,
    "relu": partial(_step, "relu"),
    "relu6": partial(_step, "relu6"),
    "leaky_relu": partial(topi.nn.leaky_relu, alpha=0.01),
    "hardsigmoid": _hardsigmoid,
    "hardswish": _hardswish,
    "sigmoid": topi.sigmoid,
    "tanh": topi.tanh,
    "silu": partial(_step, "silu"),
    "gelu": partial(_step, "gelu"),
    "softplus": _softplus,
}
"""Activations by name. They have the same TIR as the import of PyTorch's activations, except Softplus: the
import leaves PyTorch's Softplus outside the task of the layer."""

DEFAULT = (NONE, "relu", "relu6", "hardswish", "sigmoid", "silu", "gelu", "softplus")
"""Activations that the advice compares by default."""

APART = ("softplus",)
"""Activations that the import from PyTorch does not fuse into the preceding layer."""


def check_activations(names: Sequence[str]) -> None:
    """Raises UnknownActivationError for a name that is not in ACTIVATIONS."""
    for name in names:
        if name not in ACTIVATIONS:
            raise UnknownActivationError(
                f"activations={name}: unknown; choose among {', '.join(ACTIVATIONS)}"
            )
