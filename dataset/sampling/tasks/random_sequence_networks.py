"""Random networks over sequences of tokens, sound and frames."""

from __future__ import annotations

import torch
from torch import nn

from .random_layers import Head, MadeNetwork, Rng, draw_activation, draw_channels, pick


def transformer(rng: Rng) -> MadeNetwork:
    """Encoder layer of random width, heads and length, plain or cosine attention, and a mean of tokens."""
    heads, head_width = int(rng.integers(1, 17)), pick(rng, 16, 32, 48, 64, 80, 96, 128)
    tokens, width = 2 * draw_channels(rng, 512), heads * head_width
    cosine, relu = bool(rng.random() < 0.3), bool(rng.random() < 0.3)
    ratio = pick(rng, 2, 3, 4, 4, 4, 6)
    layer = _EncoderLayer(width, heads, ratio * width, cosine, nn.ReLU() if relu else nn.GELU())
    return nn.Sequential(layer, _TokenMean(width, draw_channels(rng, 4096))), (torch.empty(1, tokens, width),)


class _EncoderLayer(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int, cosine: bool, activation: nn.Module) -> None:
        super().__init__()
        self.heads, self.cosine = heads, cosine
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.projections = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.feed_forward = nn.Sequential(nn.Linear(width, hidden), activation, nn.Linear(hidden, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        *inputs, project = self.projections
        normed = self.norms[0](x)
        query, key, value = (
            linear(normed).unflatten(-1, (self.heads, -1)).transpose(1, 2) for linear in inputs
        )
        if self.cosine:  # queries and keys of length 1, as in Swin V2
            query, key = nn.functional.normalize(query, dim=-1), nn.functional.normalize(key, dim=-1)
        scores = torch.softmax(query @ key.transpose(-1, -2), dim=-1)
        x = x + project((scores @ value).transpose(1, 2).flatten(2))
        return x + self.feed_forward(self.norms[1](x))


class _TokenMean(nn.Module):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(x.mean(1))


def sequence_network(rng: Rng) -> MadeNetwork:
    """Convolutions over a sequence such as speech, some dilated or grouped, that shorten and lengthen it."""
    channels, length = draw_channels(rng, 256), 64 * int(rng.integers(2, 33))
    shape, layers = (1, channels, length), list[nn.Module]()
    for _ in range(rng.integers(3, 7)):
        kernel, out_channels = pick(rng, 1, 3, 3, 5, 7, 9, 11, 15, 31), draw_channels(rng, 768)
        groups = pick(rng, 1, 1, 1, channels)
        dilation = pick(rng, 1, 1, 1, 3, 5)
        out_channels = channels if groups > 1 else out_channels
        padding = dilation * (kernel - 1) // 2
        stride = pick(rng, 1, 1, 2)
        conv = nn.Conv1d(channels, out_channels, kernel, stride, padding, dilation, groups)
        norm = [nn.BatchNorm1d(out_channels)] if rng.random() < 0.5 else []
        layers += [conv, *norm, draw_activation(rng)]
        channels = out_channels
    for _ in range(rng.integers(1, 4)):
        stride, out_channels = pick(rng, 2, 2, 4, 5, 8), max(8, channels // 2)
        padding, extra = stride // 2, stride % 2
        layers += [
            nn.ConvTranspose1d(channels, out_channels, 2 * stride, stride, padding + extra, extra),
            draw_activation(rng),
        ]
        channels = out_channels
    return nn.Sequential(*layers), (torch.empty(shape),)


def video_network(rng: Rng) -> MadeNetwork:
    """Convolutions over video, either 3-D or split into one over the image and one over time."""
    side, frames = pick(rng, 56, 64, 80, 96, 112), pick(rng, 4, 8, 16)
    channels, layers = 3, list[nn.Module]()
    for depth in range(rng.integers(3, 6)):
        out_channels, kernel = draw_channels(rng, 64 << depth), pick(rng, 1, 3, 3, 5)
        stride = 2 if depth in (0, 2) else 1
        whole, apart = [(kernel, kernel)], [(1, kernel), (kernel, 1)]
        for time, space in whole if rng.random() < 0.5 else apart:
            steps, step = (stride if extent > 1 or kernel == 1 else 1 for extent in (time, space))
            window, strides = (time, space, space), (steps, step, step)
            padding = (time // 2, space // 2, space // 2)
            conv = nn.Conv3d(channels, out_channels, window, strides, padding, bias=False)
            layers += [conv, nn.BatchNorm3d(out_channels), nn.ReLU()]
            channels = out_channels
    layers.append(Head(channels, pick(rng, 101, 400, 600)))
    return nn.Sequential(*layers), (torch.empty(1, 3, frames, side, side),)
