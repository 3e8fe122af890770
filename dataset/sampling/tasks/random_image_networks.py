"""Random networks over images: stacks of convolutions, searched, wired and grouped networks, decoders."""

from __future__ import annotations

from functools import reduce

import torch
from torch import nn

from .random_layers import Head, MadeNetwork, Rng, draw_activation, draw_channels, pick


def _side(rng: Rng, most: int) -> int:
    """Side of an image, a multiple of 8 from a quarter of `most`."""
    return 8 * int(rng.integers(most // 32, most // 8, endpoint=True))


class _Residual(nn.Module):
    """Adds the body's output to its input; with `relu`, a ReLU follows."""

    def __init__(self, body: nn.Module, relu: bool = False) -> None:
        super().__init__()
        self.body = body
        self.last = nn.ReLU() if relu else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.body(x) + x)


# --- Linear stacks of convolutions --------------------------------------------------------------------------


def linear_stack(rng: Rng) -> MadeNetwork:
    """Convolutions of any kernel, stride, dilation and grouping, with norms, and poolings between them."""
    channels, side = 3, _side(rng, 256)
    size, layers = side, list[nn.Module]()
    for _ in range(rng.integers(6, 14)):
        layer, out_channels, stride = _random_conv2d(rng, channels, size)
        layers += layer
        channels, size = out_channels, -(-size // stride)
        if size >= 16 and rng.random() < 0.2:
            pool = (nn.MaxPool2d, nn.AvgPool2d)[rng.integers(2)]
            kernel = pick(rng, 2, 3)
            layers.append(pool(kernel, 2, kernel // 2))
            size = (size + 2 * (kernel // 2) - kernel) // 2 + 1
    layers.append(Head(channels, draw_channels(rng, 2048)))
    return nn.Sequential(*layers), (torch.empty(1, 3, side, side),)


def _random_conv2d(rng: Rng, channels: int, size: int) -> tuple[list[nn.Module], int, int]:
    """Layers of one convolution that keeps the size or halves it, its output channels and its stride."""
    kernel = pick(rng, 1, 1, 3, 3, 3, 5, 7)
    stride = 2 if size >= 16 and rng.random() < 0.3 else 1
    dilation = pick(rng, 1, 1, 1, 1, 2) if kernel > 1 else 1
    window = (kernel, 1) if kernel > 1 and rng.random() < 0.1 else (kernel, kernel)
    out_channels, groups = draw_channels(rng, min(1024, 64 * 256 // size)), 1
    if channels > 8 and rng.random() < 0.4:
        groups = pick(rng, 2, 4, 8, channels)
        out_channels = channels if groups == channels else -(-out_channels // groups) * groups
        groups = groups if channels % groups == 0 else 1
    before = rng.random() < 0.2  # norm and activation first, as in pre-activation networks
    conv = nn.Conv2d(
        channels,
        out_channels,
        window,
        stride,
        (dilation * (window[0] - 1) // 2, dilation * (window[1] - 1) // 2),
        dilation,
        groups,
        bias=before or bool(rng.integers(2)),
    )
    if before:
        return [nn.BatchNorm2d(channels), nn.ReLU(), conv], out_channels, stride
    norm = [nn.BatchNorm2d(out_channels)] if rng.random() < 0.7 else []
    layers: list[nn.Module] = [conv, *norm, draw_activation(rng)]
    if stride == 1 and out_channels == channels and rng.random() < 0.5:
        return [_Residual(nn.Sequential(conv, *norm), relu=bool(rng.integers(2)))], out_channels, stride
    return layers, out_channels, stride


# --- Networks of architecture search ------------------------------------------------------------------------


def searched_network(rng: Rng) -> MadeNetwork:
    """Inverted bottlenecks from the search space of ProxylessNAS and MnasNet (Fasor's [13] and [48]).

    Width, resolution and the depth, kernel, expansion and squeeze-excitation of each stage are drawn.
    """
    width, side = rng.uniform(0.35, 1.8), 32 * pick(rng, 4, 5, 6, 7, 8)

    def scaled(channels: int) -> int:
        return max(8, 8 * round(channels * width / 8))

    channels = scaled(32)
    layers: list[nn.Module] = [_norm_conv(3, channels, 3, 2, nn.ReLU6())]
    for stage_channels, stride in ((16, 1), (24, 2), (40, 2), (80, 2), (112, 1), (192, 2), (320, 1)):
        kernel, expansion, squeeze = pick(rng, 3, 5, 7), pick(rng, 1, 3, 4, 6), rng.random() < 0.4
        activation = (nn.ReLU6, nn.ReLU, nn.SiLU)[rng.integers(3)]
        for _ in range(rng.integers(1, 4)):
            out_channels = scaled(stage_channels)
            layers.append(_bottleneck(channels, out_channels, kernel, stride, expansion, squeeze, activation))
            channels, stride = out_channels, 1
    layers += [_norm_conv(channels, scaled(1280), 1, 1, nn.ReLU6()), Head(scaled(1280), 1000)]
    return nn.Sequential(*layers), (torch.empty(1, 3, side, side),)


def _norm_conv(
    channels: int, out_channels: int, kernel: int, stride: int, activation: nn.Module, groups: int = 1
) -> nn.Sequential:
    conv = nn.Conv2d(channels, out_channels, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out_channels), activation)


def _bottleneck(
    channels: int,
    out_channels: int,
    kernel: int,
    stride: int,
    expansion: int,
    squeeze: bool,
    activation: type[nn.Module],
) -> nn.Module:
    hidden = channels * expansion
    layers: list[nn.Module] = []
    if expansion > 1:
        layers.append(_norm_conv(channels, hidden, 1, 1, activation()))
    layers.append(_norm_conv(hidden, hidden, kernel, stride, activation(), groups=hidden))
    if squeeze:
        layers.append(_SqueezeExcitation(hidden, max(8, hidden // 4)))
    layers.append(_norm_conv(hidden, out_channels, 1, 1, nn.Identity()))
    body = nn.Sequential(*layers)
    return _Residual(body) if stride == 1 and channels == out_channels else body


class _SqueezeExcitation(nn.Module):
    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            nn.ReLU(),
            nn.Conv2d(squeezed, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gate(x)


# --- Randomly wired networks --------------------------------------------------------------------------------


def wired_network(rng: Rng) -> MadeNetwork:
    """Stages of randomly wired nodes (Fasor's [56], Xie et al., ICCV 2019, section 3)."""
    channels, side = 8 * int(rng.integers(4, 14)), 32 * pick(rng, 4, 6, 7)
    layers: list[nn.Module] = [_norm_conv(3, channels // 2, 3, 2, nn.ReLU())]
    before = channels // 2
    for stage in range(4):
        layers.append(_WiredStage(before, channels << stage, int(rng.integers(5, 12)), rng))
        before = channels << stage
    layers += [_norm_conv(before, 1280, 1, 1, nn.ReLU()), Head(1280, 1000)]
    return nn.Sequential(*layers), (torch.empty(1, 3, side, side),)


class _WiredStage(nn.Module):
    """Erdos-Renyi graph: edges with probability `edge`, directed from lower to higher nodes."""

    def __init__(self, channels: int, out_channels: int, nodes: int, rng: Rng, edge: float = 0.2) -> None:
        super().__init__()
        self.parents = [[i for i in range(j) if rng.random() < edge] for j in range(nodes)]
        has_child = {parent for parents in self.parents for parent in parents}
        self.ends = [node for node in range(nodes) if node not in has_child]
        self.nodes = nn.ModuleList(
            self._node(out_channels, out_channels, 1) if parents else self._node(channels, out_channels, 2)
            for parents in self.parents
        )

    @staticmethod
    def _node(channels: int, out_channels: int, stride: int) -> nn.Module:
        """ReLU, separable convolution and batch norm."""
        depthwise = nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False)
        pointwise = nn.Conv2d(channels, out_channels, 1, bias=False)
        return nn.Sequential(nn.ReLU(), depthwise, pointwise, nn.BatchNorm2d(out_channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs: list[torch.Tensor] = []
        for node, parents in zip(self.nodes, self.parents, strict=True):
            # A learned weight scales each parent's output.
            inputs = [torch.sigmoid(outputs[i].new_empty(())) * outputs[i] for i in parents]
            outputs.append(node(reduce(torch.add, inputs) if inputs else x))
        return reduce(torch.add, [outputs[end] for end in self.ends]) / len(self.ends)


# --- Decoders ---------------------------------------------------------------------------------------------


def decoder(rng: Rng) -> MadeNetwork:
    """Transposed convolutions that double a small image, some followed by a convolution."""
    channels, side = draw_channels(rng, 512), pick(rng, 4, 7, 8, 12, 14, 16)
    shape, layers = (1, channels, side, side), list[nn.Module]()
    for _ in range(rng.integers(2, 5)):
        kernel, out_channels = pick(rng, 2, 3, 4, 4, 6), draw_channels(rng, max(16, channels))
        extra = kernel % 2
        up = nn.ConvTranspose2d(
            channels, out_channels, kernel, 2, (kernel - 2 + extra) // 2, extra, bias=bool(rng.integers(2))
        )
        norm = [nn.BatchNorm2d(out_channels)] if rng.random() < 0.6 else []
        layers += [up, *norm, draw_activation(rng)]
        if rng.random() < 0.5:
            layers.append(_norm_conv(out_channels, out_channels, 3, 1, nn.ReLU()))
        channels = out_channels
    return nn.Sequential(*layers), (torch.empty(shape),)


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
