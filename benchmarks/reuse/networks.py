"""Networks of ETO's operator sets (Table 2) outside the zoos: R(2+1)D and a 1-D Inception-ResNet."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn


def r2plus1d_18(classes: int = 400) -> nn.Module:
    """R(2+1)D of 18 layers for clips float32 [batch, 3, frames, height, width] (Tran et al. 2018).

    Each convolution of 3 x 3 x 3 is split into one in space and one in time, with the same total of
    parameters.
    """
    stem = nn.Sequential(
        *_after(nn.Conv3d(3, 45, (1, 7, 7), (1, 2, 2), (0, 3, 3), bias=False)),
        *_after(nn.Conv3d(45, 64, (3, 1, 1), 1, (1, 0, 0), bias=False)),
    )
    blocks: list[nn.Module] = []
    before = 64
    for channels in (64, 128, 256, 512):
        for stride in (1 if channels == 64 else 2, 1):
            blocks.append(_VideoBlock(before, channels, stride))
            before = channels
    return nn.Sequential(stem, *blocks, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(512, classes))


class _VideoBlock(nn.Module):
    """Residual block of two factorised convolutions."""

    def __init__(self, before: int, channels: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_factorised(before, channels, stride),
            nn.BatchNorm3d(channels),
            nn.ReLU(),
            *_factorised(channels, channels, 1),
            nn.BatchNorm3d(channels),
        )
        self.shortcut = (
            nn.Identity()
            if stride == 1 and before == channels
            else nn.Sequential(nn.Conv3d(before, channels, 1, stride, bias=False), nn.BatchNorm3d(channels))
        )

    def forward(self, clip: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(clip) + self.shortcut(clip))


def _factorised(before: int, after: int, stride: int) -> list[nn.Module]:
    """A convolution of 3 x 3 x 3 as a convolution of 1 x 3 x 3 and one of 3 x 1 x 1."""
    middle = before * after * 27 // (before * 9 + 3 * after)
    return [
        *_after(nn.Conv3d(before, middle, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False)),
        nn.Conv3d(middle, after, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False),
    ]


def _after(convolution: nn.Conv3d) -> list[nn.Module]:
    return [convolution, nn.BatchNorm3d(convolution.out_channels), nn.ReLU()]


def inception_resnet_1d(classes: int = 1000) -> nn.Module:
    """Inception-ResNet-v2 (Szegedy et al. 2017) in one dimension, for signals float32 [batch, 3, length].

    Kernels of 1 x n and n x 1 become kernels of n. Each kind of residual block occurs twice, since its copies
    are the same operators.
    """
    return nn.Sequential(
        _convolution(3, 32, 3, stride=2),
        _convolution(32, 32, 3),
        _convolution(32, 64, 3, padding=1),
        nn.MaxPool1d(3, 2),
        _convolution(64, 80, 1),
        _convolution(80, 192, 3),
        nn.MaxPool1d(3, 2),
        _Branches(
            _convolution(192, 96, 1),
            _chain(192, (48, 1), (64, 5)),
            _chain(192, (64, 1), (96, 3), (96, 3)),
            nn.Sequential(nn.AvgPool1d(3, 1, 1), _convolution(192, 64, 1)),
        ),
        *(
            _Residual(
                320,
                _chain(320, (32, 1)),
                _chain(320, (32, 1), (32, 3)),
                _chain(320, (32, 1), (48, 3), (64, 3)),
            )
            for _ in range(2)
        ),
        _Branches(
            _convolution(320, 384, 3, stride=2),
            nn.Sequential(_chain(320, (256, 1), (256, 3)), _convolution(256, 384, 3, stride=2)),
            nn.MaxPool1d(3, 2),
        ),
        *(
            _Residual(1088, _chain(1088, (192, 1)), _chain(1088, (128, 1), (160, 7), (192, 7)))
            for _ in range(2)
        ),
        _Branches(
            nn.Sequential(_convolution(1088, 256, 1), _convolution(256, 384, 3, stride=2)),
            nn.Sequential(_convolution(1088, 256, 1), _convolution(256, 288, 3, stride=2)),
            nn.Sequential(_chain(1088, (256, 1), (288, 3)), _convolution(288, 320, 3, stride=2)),
            nn.MaxPool1d(3, 2),
        ),
        *(
            _Residual(2080, _chain(2080, (192, 1)), _chain(2080, (192, 1), (224, 3), (256, 3)))
            for _ in range(2)
        ),
        _convolution(2080, 1536, 1),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(1536, classes),
    )


def _convolution(before: int, after: int, window: int, *, stride: int = 1, padding: int = 0) -> nn.Module:
    convolution = nn.Conv1d(before, after, window, stride, padding, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm1d(after), nn.ReLU())


def _chain(before: int, *layers: tuple[int, int]) -> nn.Module:
    """Convolutions of (channels, window) that keep the length."""
    widths = [before, *(channels for channels, _ in layers)]
    return nn.Sequential(
        *(
            _convolution(width, channels, window, padding=window // 2)
            for width, (channels, window) in zip(widths, layers, strict=False)
        )
    )


class _Branches(nn.Module):
    """Concatenated branches."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(signal) for branch in self.branches], 1)


class _Residual(nn.Module):
    """Branches whose projection is added to their input, at a fifth of its size."""

    def __init__(self, channels: int, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = _Branches(*branches)
        self.project = nn.Conv1d(_width(branches), channels, 1)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        return torch.relu(signal + 0.2 * self.project(self.branches(signal)))


def _width(branches: Sequence[nn.Module]) -> int:
    """Channels of branches that end in a convolution."""
    last = [[m for m in branch.modules() if isinstance(m, nn.Conv1d)][-1] for branch in branches]
    return sum(convolution.out_channels for convolution in last)
