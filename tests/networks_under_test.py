"""Small modules that tests load by import path."""

from __future__ import annotations

import torch
from torch import nn


def randomise_batch_norms(module: nn.Module) -> nn.Module:
    """Gives every batch norm statistics and parameters far from the 0 and 1 that would hide a mistake."""
    for layer in module.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2.0)
            if layer.affine:
                nn.init.normal_(layer.weight)
                nn.init.normal_(layer.bias)
    return module


class EveryBatchNorm(nn.Module):
    """Batch norm after a biased, a depthwise and a transposed convolution, after none, and after a linear."""

    def __init__(self) -> None:
        super().__init__()
        self.biased = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.depthwise = nn.Sequential(
            nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8, bias=False), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.alone = nn.Sequential(nn.BatchNorm2d(8, affine=False), nn.ReLU())
        self.transposed = nn.Sequential(nn.ConvTranspose2d(8, 4, 2, stride=2), nn.BatchNorm2d(4), nn.ReLU())
        self.grouped_transposed = nn.Sequential(nn.ConvTranspose2d(4, 4, 2, groups=2), nn.BatchNorm2d(4))
        self.linear = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5))
        randomise_batch_norms(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.transposed(self.alone(self.depthwise(self.biased(x))))
        return self.linear(self.grouped_transposed(x).mean((2, 3)))


class Residual(nn.Module):
    """Two equal blocks and one with a shared convolution output: conv + BN (+ residual) + ReLU."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))
        self.head = nn.Linear(channels, 3)
        randomise_batch_norms(self)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = torch.relu(norm(conv(x)) + x)
        return {"features": x, "logits": self.head(x.mean((2, 3)))}


class SharedConvolution(nn.Module):
    """The convolution's output is used beside its batch norm, so the unfolded one must stay."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 1), nn.BatchNorm2d(4)
        randomise_batch_norms(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return self.norm(y) * torch.sigmoid(y)


class ChannelShuffle(nn.Module):
    """ShuffleNet's shuffle, split and second shuffle, which compilation fuses once more if one lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.shuffle(torch.cat([self.left(x), self.right(x)], 1))
        first, second = x.chunk(2, 1)
        return self.shuffle(torch.cat([self.left(first), second], 1))

    @staticmethod
    def shuffle(x: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        return x.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(x.shape)


class DataDependent(nn.Module):
    """Branches on its data: runs eagerly, does not export."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x - 1


class UnknownOperator(nn.Module):
    """Exports, but TVM's importer has no such operator."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.adaptive_max_pool2d(x, 2)


class Embedding(nn.Module):
    """Takes token numbers and a floating mask."""

    def __init__(self, vocabulary: int = 7) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, 4)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.table(tokens) * mask, -1)


def not_a_module() -> int:
    """A factory that returns no module."""
    return 3


class EveryLayout(nn.Module):
    """What lies between convolutions: clips, leaky ReLUs, pools, residuals; a linear layer at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU6(), nn.MaxPool2d(2))
        self.depthwise = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.LeakyReLU(0.1))
        self.grouped = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=2, bias=False), nn.Hardswish())
        self.last = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        x = self.grouped(self.depthwise(x)) + x
        return self.last(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Attention(nn.Module):
    """Softmax of scores, then a GELU, a SiLU and a tanh."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = torch.softmax(x @ x.transpose(1, 2) / 4, -1)
        return torch.tanh(nn.functional.silu(nn.functional.gelu(scores @ x)))
