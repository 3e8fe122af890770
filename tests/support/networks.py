"""Small modules that tests load by import path."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def randomise_batch_norms(module: nn.Module) -> nn.Module:
    """Draws statistics and parameters of every batch norm: the defaults 0 and 1 would hide mistakes."""
    for layer in module.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2.0)
            if layer.affine:
                nn.init.normal_(layer.weight)
                nn.init.normal_(layer.bias)
    return module


class EveryBatchNorm(nn.Module):
    """Batch norms behind biased, depthwise and transposed convolutions, behind a linear layer, and alone."""

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
    """Two equal blocks of convolution, batch norm, residual and ReLU, then a linear layer."""

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
    """Convolution whose output has another user than its batch norm, so that the unfolded one must stay."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 1), nn.BatchNorm2d(4)
        randomise_batch_norms(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return self.norm(y) * torch.sigmoid(y)


class ColumnTables(nn.Module):
    """Convolutions and batch norms with a value for each of four columns between: of 4 channels, and of 3."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(2, 4, 1, bias=False), nn.Conv2d(4, 3, 1, bias=False)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(4), nn.BatchNorm2d(3)])
        self.tables = nn.ParameterList(nn.Parameter(torch.randn(4)) for _ in range(2))
        randomise_batch_norms(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv, norm, table in zip(self.convs, self.norms, self.tables, strict=True):
            x = norm(conv(x) + table.view(1, 1, 1, 4))
        return x


class ChannelShuffle(nn.Module):
    """ShuffleNet's shuffle, split and second shuffle, which compilation would fuse once more by default."""

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


class Double(nn.Module):
    """Twice the input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


class DataDependent(nn.Module):
    """Network that branches on its data: it runs eagerly and does not export."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x - 1


class UnknownOperator(nn.Module):
    """Network that exports with an operator that TVM's importer lacks and nothing decomposes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.special.polygamma(2, x)


class Nothing(nn.Module):
    """Network that returns no tensor."""

    def forward(self, x: torch.Tensor) -> None:
        return None


class Embedding(nn.Module):
    """Network that takes token numbers and a floating mask."""

    def __init__(self, vocabulary: int = 7) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, 4)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.table(tokens) * mask, -1)


class Dense(nn.Module):
    """One matrix product with a ReLU, which any schedule makes faster."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(256, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(x))


class Segmentation(nn.Module):
    """Classes of the pixels of an image of any size, from features of two scales."""

    def __init__(self) -> None:
        super().__init__()
        self.fine, self.coarse = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 3, 2, 1)
        self.norm, self.classes = nn.BatchNorm2d(8), nn.Conv2d(24, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fine = torch.relu(self.norm(self.fine(x)))
        coarse = torch.relu(self.coarse(fine))
        resized = nn.functional.interpolate(coarse, size=fine.shape[-2:], mode="bilinear")
        classes = self.classes(torch.cat([fine, resized], 1))
        return nn.functional.interpolate(classes, size=x.shape[-2:], mode="bilinear")


class TextLine(nn.Module):
    """Characters along a line of text of any width."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.columns, self.characters = nn.Linear(8 * 8, 32), nn.Linear(32, 20)
        self.context = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.features(x)
        batch, channels, height, width = y.shape
        columns = y.permute(0, 3, 1, 2).reshape(batch, width, channels * height)
        return torch.log_softmax(self.characters(self.context(self.columns(columns))), -1)


def not_a_module() -> int:
    """A factory that returns no module."""
    return 3


class EveryLayout(nn.Module):
    """Clips, leaky ReLUs, pools and residuals between convolutions, and a linear layer at the end."""

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


class Convolutions(nn.Module):
    """Three convolutions of 64 channels, enough work for two threads to pay."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Conv2d(64, 64, 3, padding=1) for _ in range(3)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class SharedOutputs(nn.Module):
    """Outputs that are the input, a view of it, a weight, and one result twice."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(16.0).reshape(4, 4), requires_grad=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.relu(x @ self.weight)
        return x, x.reshape(-1), self.weight, y, y


class Threes(nn.Module):
    """3x3 convolutions of 16 channels behind a stem: `equal` of one task, then one with a residual."""

    def __init__(self, equal: int = 2) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(equal + 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.stem(x))
        y = x
        for convolution in self.body[:-1]:
            y = torch.relu(convolution(y))
        return torch.relu(self.body[-1](y) + x)


class OneConvolution(nn.Module):
    """A convolution with a ReLU, of the arguments of `nn.Conv2d`; `residual` adds the data before it."""

    def __init__(self, residual: bool = False, relu: bool = True, **arguments: Any) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(**arguments)
        self.residual, self.relu = residual, relu

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.convolution(x)
        y = y + x if self.residual else y
        return torch.relu(y) if self.relu else y


class TransformerBlock(nn.Module):
    """Attention and a multi-layer perceptron with residuals and layer norms."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.widen, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        scores = torch.softmax(self.query(y) @ self.key(y).transpose(1, 2) / 6, -1)
        x = x + self.output(scores @ self.value(y))
        return x + self.narrow(nn.functional.gelu(self.widen(self.second(x))))


class CausalBlock(nn.Module):
    """Attention to earlier positions, with a mask and position embeddings made for each length."""

    def __init__(self, width: int = 16, longest: int = 33) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.randn(longest, width))
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.widen, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        x = x + self.positions[:length]
        mask = torch.full((length, length), float("-inf")).triu(1)
        y = self.norm(x + self.attention(x, x, x, attn_mask=mask, need_weights=False)[0])
        return y + self.narrow(nn.functional.gelu(self.widen(y)))
