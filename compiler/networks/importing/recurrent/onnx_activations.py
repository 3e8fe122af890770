"""Activations of ONNX's recurrent layers by their attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....templates.cpu.recurrent.cell import Activation

PARAMETERS: Mapping[str, tuple[float, ...]] = {
    **dict.fromkeys(("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus"), ()),
    "LeakyRelu": (0.01,),
    "ThresholdedRelu": (1.0,),
    "Elu": (1.0,),
    "HardSigmoid": (0.2, 0.5),
}
"""Usual values of alpha and beta, as far as an activation has them."""


class NoActivationError(Exception):
    """An activation has no counterpart; the message is its name."""


def activations_of(
    options: Mapping[str, Any], usual: Sequence[str], directions: int
) -> list[list[Activation]]:
    """Activations of each direction, by the attributes of a recurrent layer.

    `usual` are the activations of a direction whose attributes name none. The lists `activation_alpha` and
    `activation_beta` have values for those activations alone that have parameters. Raises
    NoActivationError.
    """
    names = [_text(name) for name in options.get("activations") or ()] or [*usual] * directions
    values = [list(options.get(name) or ()) for name in ("activation_alpha", "activation_beta")]
    found = []
    for name in names:
        title = next((known for known in PARAMETERS if known.lower() == name.lower()), None)
        if title is None:
            raise NoActivationError(name)
        given = [
            float(own.pop(0)) if own else usually
            for own, usually in zip(values, PARAMETERS[title], strict=False)
        ]
        found.append(Activation(title, *given))
    count = len(usual)
    return [found[number * count : (number + 1) * count] for number in range(directions)]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
