"""Layers with consecutive products, from Tables 1 and 2 of Bolt and the blocks of MobileNetV2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import nn


class Products(nn.Module):
    """Two linear layers, each with ReLU."""

    def __init__(self, depth: int, middle: int, columns: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(depth, middle), nn.Linear(middle, columns)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.relu(self.first(x))))


class Convolutions(nn.Module):
    """A 3x3 and a 1x1 convolution, each with bias and ReLU."""

    def __init__(self, channels: int, filters: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, filters, 3, stride, 1)
        self.second = nn.Conv2d(filters, filters, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.relu(self.first(x))))


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution and projection with biases and ReLU6."""

    def __init__(self, channels: int, expanded: int, filters: int, stride: int) -> None:
        super().__init__()
        self.expand = nn.Conv2d(channels, expanded, 1)
        self.depthwise = nn.Conv2d(expanded, expanded, 3, stride, 1, groups=expanded)
        self.project = nn.Conv2d(expanded, filters, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        six = nn.functional.relu6
        return self.project(six(self.depthwise(six(self.expand(x)))))


@dataclass(frozen=True)
class Layers:
    """One row of the table."""

    name: str
    network: str
    """Class of this module."""
    shape: tuple[int, ...]
    kwargs: Mapping[str, int] = field(default_factory=dict)
    published: float | None = None
    """Speedup by fusion in Bolt, on a T4; None if Bolt does not report it."""


def _products(rows: int, depth: int, middle: int, columns: int, published: float) -> Layers:
    kwargs = {"depth": depth, "middle": middle, "columns": columns}
    return Layers(f"dense {rows} x {depth}-{middle}-{columns}", "Products", (rows, depth), kwargs, published)


def _convolutions(size: int, channels: int, filters: int, stride: int, published: float) -> Layers:
    kwargs = {"channels": channels, "filters": filters, "stride": stride}
    name = f"conv {size} {channels}-{filters} 3x3/{stride}, 1x1"
    return Layers(name, "Convolutions", (1, channels, size, size), kwargs, published)


def _residual(size: int, channels: int, expanded: int, filters: int, stride: int) -> Layers:
    kwargs = {"channels": channels, "expanded": expanded, "filters": filters, "stride": stride}
    name = f"inverted residual {size} {channels}-{expanded}-{filters}/{stride}"
    return Layers(name, "InvertedResidual", (1, channels, size, size), kwargs)


LAYERS = (
    *(
        _products(2464, 4, 1, 4, 1.24),
        _products(16384, 256, 64, 16, 1.34),
        _products(32768, 576, 128, 64, 1.28),
        _products(128320, 96, 32, 96, 1.46),
    ),
    *(
        _convolutions(224, 3, 48, 2, 1.10),
        _convolutions(112, 48, 48, 2, 1.41),
        _convolutions(56, 48, 48, 1, 1.87),
        _convolutions(224, 3, 64, 2, 1.24),
        _convolutions(112, 64, 64, 2, 1.12),
        _convolutions(56, 64, 64, 1, 2.02),
    ),
    *(
        _residual(112, 16, 96, 24, 2),
        _residual(56, 24, 144, 24, 1),
        _residual(56, 24, 144, 32, 2),
        _residual(28, 32, 192, 32, 1),
        _residual(28, 32, 192, 64, 2),
        _residual(14, 64, 384, 64, 1),
        _residual(14, 64, 384, 96, 1),
        _residual(14, 96, 576, 96, 1),
        _residual(14, 96, 576, 160, 2),
        _residual(7, 160, 960, 160, 1),
        _residual(7, 160, 960, 320, 1),
    ),
)
"""Rows of Tables 1 and 2 of Bolt, a batch of 1, and the shapes of MobileNetV2's blocks at 224 x 224."""
