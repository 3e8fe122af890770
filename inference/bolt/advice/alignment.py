"""Channels that do not fill whole vectors, and layers with aligned channels (Bolt sections 3.2.3 and 3.3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tvm.target import Target

from ....compiler.operators.convolutions.conv2d import Conv2d, DepthwiseConv2d
from ....compiler.operators.dense import Dense
from ....compiler.operators.settings import OperatorSettings
from ....compiler.targets import is_cpu
from ....compiler.types import data_type
from ....dataset.hardware import Hardware
from .layers import Layer, Variant

_ACCESS_BITS = 128
"""Bits of a GPU's widest load and store (section 3.2.3): eight values of float16, four of float32."""

UP, DOWN = "up", "down"

WIDTHS = ("in_channels", "out_channels", "in_features", "out_features")
"""Fields of an operator that hold widths of the network."""


@dataclass(frozen=True)
class Aligned:
    """A layer whose widths are multiples of the alignment."""

    direction: str
    """UP or DOWN."""
    widths: tuple[str, ...]
    """Names of the settings that differ from the layer's."""
    variant: Variant


def alignment(target: Target, hardware: Hardware, dtype: str) -> int:
    """Width unit in values, the CPU's vector or the GPU's widest access; widths should be multiples of it."""
    bits = hardware.vector_bits if is_cpu(target) else _ACCESS_BITS
    return max(1, bits // data_type(dtype).bits)


def misaligned(settings: OperatorSettings, unit: int, data_too: bool) -> tuple[str, ...]:
    """Widths of an operator that are not multiples of `unit`; operators with groups have none.

    Unless `data_too` is set, a width of the input data below one unit stays unchanged. It belongs to the
    image at the network's entrance. A CPU reads this image one value at a time, so that each added
    value costs time.
    """
    if not isinstance(settings, (Conv2d, DepthwiseConv2d, Dense)):
        return ()
    fields = [name for name in WIDTHS if hasattr(settings, name)]
    if not isinstance(settings, DepthwiseConv2d) and not data_too:
        fields = [name for name in fields if not name.startswith("in_") or getattr(settings, name) >= unit]
    return tuple(name for name in fields if getattr(settings, name) % unit)


def aligned(layer: Layer, unit: int, data_too: bool) -> list[Aligned]:
    """The layer with all misaligned widths rounded up, and rounded down; empty if all widths are aligned.

    Input and output widths change together, because neighbouring layers of a network share them. The layer
    rounded down is missing if one of its widths would be zero.
    """
    settings = layer.variant.settings
    names = misaligned(settings, unit, data_too)
    found = []
    for direction in (UP, DOWN) if names else ():
        widths: dict[str, Any] = {name: rounded(getattr(settings, name), unit, direction) for name in names}
        if all(widths.values()):
            changed = replace(settings, **widths)
            found.append(Aligned(direction, names, Variant(changed, layer.variant.activation)))
    return found


def rounded(width: int, unit: int, direction: str) -> int:
    """The next multiple of `unit` in a direction: for the unit 16, 24 becomes 32 up and 16 down."""
    return (-(-width // unit) if direction == UP else width // unit) * unit
