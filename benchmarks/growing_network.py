"""Random networks of the zoo's convolutions, with as many distinct ones as asked for."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import nn

Shape: TypeAlias = tuple[int, int, int]
"""Channels, height and width of an activation."""

INPUT: Shape = (64, 56, 56)

MOST_PRODUCTS, MOST_WEIGHTS = 50_000_000, 300_000
"""Multiplications and weights of the largest layer, so that a network of 400 layers runs in a second."""


@dataclass(frozen=True)
class Layer:
    """A convolution of the zoo for one shape of its input."""

    out_channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    groups: int

    def module(self, shape: Shape) -> nn.Module:
        """The convolution with ReLU; its outputs have about the variance of its inputs."""
        sizes = (self.kernel, self.stride, self.padding)
        convolution = nn.Conv2d(shape[0], self.out_channels, *sizes, groups=self.groups)
        nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
        return nn.Sequential(convolution, nn.ReLU())

    def output(self, shape: Shape) -> Shape:
        """Shape of the output."""
        sizes = zip(shape[1:], self.kernel, self.stride, self.padding, strict=True)
        height, width = ((size + 2 * pad - kernel) // step + 1 for size, kernel, step, pad in sizes)
        return self.out_channels, height, width

    def is_small(self, shape: Shape) -> bool:
        """Whether the layer has few products and weights."""
        weights = self.out_channels * (shape[0] // self.groups) * self.kernel[0] * self.kernel[1]
        _, height, width = self.output(shape)
        return (
            min(height, width) > 0 and weights <= MOST_WEIGHTS and weights * height * width <= MOST_PRODUCTS
        )


def zoo_layers() -> dict[Shape, list[Layer]]:
    """Distinct small convolutions of the zoo by the shape of their input, in the order of its table."""
    from foretune.dataset.sampling.zoo.table import read_zoo_table

    found: defaultdict[Shape, dict[Layer, None]] = defaultdict(dict)
    for row in read_zoo_table():
        if row.settings.operator not in ("conv2d", "depthwise_conv2d", "group_conv2d"):
            continue
        settings: Any = row.settings
        if settings.dilation != (1, 1):
            continue
        channels = settings.in_channels
        groups = channels if settings.operator == "depthwise_conv2d" else getattr(settings, "groups", 1)
        out_channels = channels if settings.operator == "depthwise_conv2d" else settings.out_channels
        layer = Layer(out_channels, settings.kernel, settings.stride, settings.padding, groups)
        shape = (channels, settings.height, settings.width)
        if layer.is_small(shape):
            found[shape][layer] = None
    return {shape: list(layers) for shape, layers in found.items()}


class Growing(nn.Module):
    """Tree of distinct convolutions of the zoo: float32 [1, *INPUT] to [1, sum of the leaves' channels].

    Each layer follows the last one if the zoo has a layer for its output that is not used yet, or else an
    earlier one. The leaves are averaged over their places.
    """

    def __init__(self, layers: int, seed: int = 0) -> None:
        """Raises ValueError if the zoo has too few layers that follow each other."""
        super().__init__()
        rng, unused = random.Random(seed), zoo_layers()
        for of_shape in unused.values():
            rng.shuffle(of_shape)
        shapes, parents, modules = [INPUT], [], []
        while len(modules) < layers:
            open_places = [place for place, shape in enumerate(shapes) if unused.get(shape)]
            if not open_places:
                raise ValueError(f"layers={layers}: the zoo has {len(modules)} that follow each other")
            place = open_places[-1] if open_places[-1] == len(modules) else rng.choice(open_places)
            layer = unused[shapes[place]].pop()
            modules.append(layer.module(shapes[place]))
            parents.append(place)
            shapes.append(layer.output(shapes[place]))
        self.layers = nn.ModuleList(modules)
        self.parents = parents

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = [x]
        for module, parent in zip(self.layers, self.parents, strict=True):
            places.append(module(places[parent]))
        leaves = sorted({*range(1, len(places))} - {*self.parents})
        return torch.cat([places[leaf].mean((2, 3)) for leaf in leaves], 1)
