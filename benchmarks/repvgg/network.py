"""RepVGG in its deployed form: 3x3 convolutions, each with an activation (Ding et al. 2021, section 3.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import nn

BASE = (64, 128, 256, 512)
"""Widths of the stages before they are multiplied."""

ACTIVATIONS: Mapping[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "hardswish": nn.Hardswish,
    "softplus": nn.Softplus,
}
"""Widths in Bolt's Table 4."""


@dataclass(frozen=True)
class Size:
    """Layers and widths of one RepVGG."""

    blocks: tuple[int, int, int, int]
    """Convolutions of the stages after the first one, which has one."""
    width: float
    """Factor of all widths except the last."""
    last_width: float


SIZES: Mapping[str, Size] = {
    "A0": Size((2, 4, 14, 1), 0.75, 2.5),
    "A1": Size((2, 4, 14, 1), 1.0, 2.5),
    "B0": Size((4, 6, 16, 1), 1.0, 2.5),
}


def repvgg(size: str = "A0", activation: str = "relu", deeper: int = 0) -> nn.Module:
    """A RepVGG for images [n, 3, h, w] of 1,000 classes.

    `deeper` is the number of leading 3x3 convolutions that are followed by a 1x1 convolution, with equal
    numbers of input and output channels and an activation. The last 3x3 convolution has too many channels for
    this and never gets one (Bolt section 4.3).
    """
    shape, act = SIZES[size], ACTIVATIONS[activation]
    factors = [shape.width] * 3 + [shape.last_width]
    widths = [int(base * factor) for base, factor in zip(BASE, factors, strict=True)]
    first = min(64, widths[0])
    plan = [(first, 2)]
    for width, blocks in zip(widths, shape.blocks, strict=True):
        plan += [(width, 2 if number == 0 else 1) for number in range(blocks)]
    layers: list[nn.Module] = []
    channels = 3
    for number, (width, stride) in enumerate(plan):
        layers += [nn.Conv2d(channels, width, 3, stride, 1), act()]
        channels = width
        if number < min(deeper, len(plan) - 1):
            layers += [nn.Conv2d(width, width, 1), act()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def parameters(module: nn.Module) -> int:
    """Number of weights and biases."""
    return sum(parameter.numel() for parameter in module.parameters())
