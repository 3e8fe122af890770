"""Random choices and layers that all random networks use."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch
from torch import nn

Rng: TypeAlias = np.random.Generator

MadeNetwork: TypeAlias = tuple[nn.Module, tuple[torch.Tensor, ...]]
"""A network and its input of batch 1."""


def pick(rng: Rng, *choices: int) -> int:
    return int(rng.choice(choices))


def draw_channels(rng: Rng, most: int) -> int:
    """A multiple of 8 up to `most`, uniform on a logarithmic scale."""
    return 8 * round(2 ** rng.uniform(0, np.log2(most / 8)))


def draw_activation(rng: Rng) -> nn.Module:
    return (nn.ReLU, nn.ReLU6, nn.GELU, nn.SiLU, nn.Identity)[
        rng.choice(5, p=(0.5, 0.15, 0.15, 0.1, 0.1))
    ]()  # fmt: skip


class Head(nn.Module):
    """Mean over all but batch and channels, then a classifier."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(x.mean(tuple(range(2, x.dim()))))
