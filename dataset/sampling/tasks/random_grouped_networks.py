"""Random networks with group norms of images, and with grouped convolutions of video."""

from __future__ import annotations

import torch
from torch import nn

from .random_layers import Head, MadeNetwork, Rng, draw_activation, draw_channels, pick


def group_normed_network(rng: Rng) -> MadeNetwork:
    """Residual blocks with a group norm before each convolution, as in Big Transfer and diffusion models.

    A network has one activation, and either one number of groups or one number of channels per group.
    """
    side, channels = 8 * int(rng.integers(4, 29)), 32 * int(rng.integers(1, 6))
    groups, channels_of_each = pick(rng, 1, 8, 16, 32, 32, 32), pick(rng, 0, 0, 0, 8, 16)
    activation = (nn.ReLU, nn.SiLU)[rng.integers(2)]
    layers: list[nn.Module] = [nn.Conv2d(3, channels, pick(rng, 3, 7), 2, 1)]
    for stage in range(rng.integers(2, 5)):
        for _ in range(rng.integers(1, 3)):
            norm = nn.GroupNorm(channels // channels_of_each if channels_of_each else groups, channels)
            layers.append(_Block(channels, norm, activation()))
        if stage:
            layers.append(nn.Conv2d(channels, 2 * channels, 3, 2, 1))
            channels *= 2
    layers.append(Head(channels, 1000))
    return nn.Sequential(*layers), (torch.empty(1, 3, side, side),)


class _Block(nn.Module):
    def __init__(self, channels: int, norm: nn.Module, activation: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(norm, activation, nn.Conv2d(channels, channels, 3, padding=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


def separated_video_network(rng: Rng) -> MadeNetwork:
    """Bottlenecks over frames whose 3-D convolution is grouped or depthwise, as in ResNeXt, CSN and X3D."""
    side, frames = pick(rng, 56, 64, 80, 96, 112), pick(rng, 4, 8, 16)
    channels = draw_channels(rng, 64)
    cardinality, ratio = pick(rng, 0, 0, 2, 4, 8, 32), pick(rng, 1, 2, 4)  # 0 groups: depthwise
    layers: list[nn.Module] = [nn.Conv3d(3, channels, (1, 3, 3), (1, 2, 2), (0, 1, 1), bias=False)]
    for _ in range(rng.integers(2, 6)):
        out_channels, kernel, stride = 2 * channels, pick(rng, 3, 3, 5), pick(rng, 1, 2)
        hidden = -(-ratio * channels // 32) * 32
        window = (kernel, kernel, kernel) if rng.random() < 0.7 else (1, kernel, kernel)
        middle = nn.Conv3d(
            hidden,
            hidden,
            window,
            (1, stride, stride),
            (window[0] // 2, kernel // 2, kernel // 2),
            groups=cardinality or hidden,
            bias=False,
        )
        for conv in (
            nn.Conv3d(channels, hidden, 1, bias=False),
            middle,
            nn.Conv3d(hidden, out_channels, 1, bias=False),
        ):
            layers += [conv, nn.BatchNorm3d(conv.out_channels), draw_activation(rng)]
        channels = out_channels
    layers.append(Head(channels, pick(rng, 101, 400, 600)))
    return nn.Sequential(*layers), (torch.empty(1, 3, frames, side, side),)
