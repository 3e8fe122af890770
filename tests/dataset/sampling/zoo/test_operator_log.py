"""Log of a network's operators: every kind, with the steps fused behind it, from small networks by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from foretune.compiler.operators import (
    BatchMatmul,
    BatchNorm,
    Conv1d,
    Conv2d,
    Conv3d,
    Dense,
    DepthwiseConv2d,
    FrobeniusNorm,
    GroupConv2d,
    GroupConv3d,
    GroupNorm,
    LayerNorm,
    OperatorSettings,
    Pool2d,
    Reduction,
    Softmax,
    TransposedConv1d,
    TransposedConv2d,
)
from foretune.dataset.sampling.zoo.operator_log import Operators, log_operators
from torch import nn


class Function(nn.Module):
    """Layers, and a function of the input that calls them."""

    def __init__(self, forward: Callable[..., torch.Tensor], **layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(layers)
        self.function = forward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, **self.layers)


def read(build: Callable[[], nn.Module], *shape: int) -> Operators:
    return log_operators(lambda: (build(), (torch.empty(shape),)))


def conv(epilogue: str, out_channels: int = 8) -> Conv2d:
    return Conv2d(
        batch=1, in_channels=8, height=6, width=6, out_channels=out_channels, kernel=3, padding=1,
        epilogue=epilogue,
    )  # fmt: skip


def conv_layer(bias: bool = True) -> nn.Conv2d:
    return nn.Conv2d(8, 8, 3, padding=1, bias=bias)


IMAGE = (1, 8, 6, 6)


@pytest.mark.parametrize(
    ("build", "shape", "expected"),
    [
        (lambda: nn.Conv1d(4, 6, 5, 2, 2, groups=2), (1, 4, 50),
         Conv1d(batch=1, in_channels=4, length=50, out_channels=6, kernel=5, stride=2, padding=2, groups=2,
                epilogue="bias")),
        (lambda: nn.Conv2d(8, 12, (3, 1), 2, (1, 0), bias=False), IMAGE,
         Conv2d(batch=1, in_channels=8, height=6, width=6, out_channels=12, kernel=(3, 1), stride=2,
                padding=(1, 0))),
        (lambda: nn.Conv2d(8, 16, 1, groups=8), IMAGE,
         GroupConv2d(batch=1, in_channels=8, height=6, width=6, out_channels=16, kernel=1, groups=8,
                     epilogue="bias")),
        (lambda: nn.Conv2d(8, 8, 3, dilation=2, groups=8), IMAGE,
         DepthwiseConv2d(batch=1, in_channels=8, height=6, width=6, kernel=3, dilation=2, epilogue="bias")),
        (lambda: nn.Conv3d(3, 5, (1, 3, 3), padding=(0, 1, 1), bias=False), (1, 3, 4, 6, 7),
         Conv3d(batch=1, in_channels=3, depth=4, height=6, width=7, out_channels=5, kernel=(1, 3, 3),
                padding=(0, 1, 1))),
        (lambda: nn.Conv3d(4, 4, 1, groups=4), (1, 4, 2, 3, 5),
         GroupConv3d(batch=1, in_channels=4, depth=2, height=3, width=5, out_channels=4, kernel=1, groups=4,
                     epilogue="bias")),
        (lambda: nn.ConvTranspose1d(4, 2, 4, 2, 1), (1, 4, 10),
         TransposedConv1d(batch=1, in_channels=4, length=10, out_channels=2, kernel=4, stride=2, padding=1,
                          epilogue="bias")),
        (lambda: nn.ConvTranspose2d(8, 3, 3, 2, 1, 1, bias=False), IMAGE,
         TransposedConv2d(batch=1, in_channels=8, height=6, width=6, out_channels=3, kernel=3, stride=2,
                          padding=1, output_padding=1)),
        (lambda: nn.Linear(7, 5), (3, 7), Dense(rows=3, in_features=7, out_features=5, epilogue="bias")),
        (lambda: nn.Linear(7, 5, bias=False), (2, 3, 7), Dense(rows=6, in_features=7, out_features=5)),
        (lambda: nn.Softmax(-1), (2, 3, 9), Softmax(rows=6, columns=9)),
        (lambda: nn.LayerNorm((3, 9)), (2, 3, 9), LayerNorm(rows=2, columns=27)),
        (lambda: nn.BatchNorm2d(8), IMAGE, BatchNorm(batch=1, channels=8, height=6, width=6)),
        (lambda: nn.GroupNorm(4, 8, affine=False), (1, 8, 6, 5),
         GroupNorm(batch=1, channels=8, groups=4, height=6, width=5)),
        (lambda: nn.MaxPool2d(3, 2, 1), IMAGE,
         Pool2d(batch=1, channels=8, height=6, width=6, kernel=3, stride=2, padding=1)),
        (lambda: nn.AvgPool2d(2), IMAGE,
         Pool2d(batch=1, channels=8, height=6, width=6, kernel=2, stride=2, mode="avg")),
        (lambda: nn.AdaptiveAvgPool2d(1), IMAGE,
         Pool2d(batch=1, channels=8, height=6, width=6, kernel=6, mode="avg")),
        (lambda: nn.AdaptiveAvgPool2d(2), IMAGE,
         Pool2d(batch=1, channels=8, height=6, width=6, kernel=3, stride=3, mode="avg")),
        (lambda: Function(lambda x: x.mean(1)), (1, 5, 9), Reduction(rows=5, columns=9, mode="mean", axis=0)),
        (lambda: Function(lambda x: x.sum(-1)), (2, 5, 9), Reduction(rows=10, columns=9)),
        (lambda: Function(lambda x: x.amax((1, 2))), (2, 5, 9), Reduction(rows=2, columns=45, mode="max")),
        (lambda: Function(lambda x: nn.functional.normalize(x, dim=-1)), (2, 5, 9),
         FrobeniusNorm(batch=10, rows=1, columns=9)),
        (lambda: Function(lambda x: torch.linalg.matrix_norm(x)), (2, 5, 9),
         FrobeniusNorm(batch=2, rows=5, columns=9)),
    ],
)  # fmt: skip
def test_one_operator(
    build: Callable[[], nn.Module], shape: tuple[int, ...], expected: OperatorSettings
) -> None:
    found = read(build, *shape)
    assert found.calls == {expected: 1}
    assert not found.skipped


def test_attention_meets_keys_as_they_are_stored() -> None:
    def attend(x: torch.Tensor) -> torch.Tensor:  # [1, 10 tokens, 3 heads x 4]
        heads = x.unflatten(-1, (3, 4)).transpose(1, 2)
        return torch.softmax(heads @ heads.transpose(-1, -2), -1) @ heads

    assert read(lambda: Function(attend), 1, 10, 12).calls == {
        BatchMatmul(batch=3, rows=10, inner=4, columns=10, transpose_right=True): 1,
        Softmax(rows=30, columns=10): 1,
        BatchMatmul(batch=3, rows=10, inner=10, columns=4): 1,
    }


@pytest.mark.parametrize(
    ("build", "epilogues"),
    [
        (lambda: nn.Sequential(conv_layer(False), nn.BatchNorm2d(8), nn.ReLU()), ["bias_relu"]),
        (lambda: nn.Sequential(conv_layer(), nn.BatchNorm2d(8), nn.ReLU6()), ["bias_relu6"]),
        (lambda: nn.Sequential(conv_layer(False), nn.ReLU(inplace=True)), ["relu"]),
        (lambda: nn.Sequential(conv_layer(), nn.GELU()), ["bias_gelu"]),
        (lambda: nn.Sequential(conv_layer(), nn.Hardtanh(0, 1)), ["bias"]),
        (lambda: nn.Sequential(conv_layer(), nn.SiLU(), nn.ReLU()), ["bias"]),
        (lambda: nn.Sequential(conv_layer(), nn.Dropout(), nn.ReLU(), nn.ReLU()), ["bias_relu"]),
        # Fusion ends at the activation: no epilogue adds a residual behind one.
        (lambda: Function(lambda x, a: a(x).relu() + x, a=conv_layer()), ["bias_relu"]),
        (lambda: Function(lambda x, a: (a(x) + x).relu(), a=conv_layer()), ["bias_add_relu"]),
        (lambda: Function(lambda x, a: (x + a(x)).relu(), a=conv_layer(False)), ["add"]),
        # Of two that meet, the one that runs first takes the sum.
        (lambda: Function(lambda x, a, b: (a(x) + b(x)).relu(), a=conv_layer(), b=conv_layer()),
         ["bias", "bias_add_relu"]),
        # The output is used twice, so nothing is fused behind it.
        (lambda: Function(lambda x, a: a(x) * torch.sigmoid(a(x)), a=conv_layer()), ["bias", "bias"]),
        (lambda: Function(lambda x, a: (y := a(x)).relu() + y, a=conv_layer()), ["bias"]),
        (lambda: Function(lambda x, a: (a(x) + 1).relu(), a=conv_layer()), ["bias"]),
        (lambda: Function(lambda x, a: a(x).flatten(1).relu(), a=conv_layer()), ["bias"]),
    ],
)  # fmt: skip
def test_what_is_fused_behind_a_convolution(build: Callable[[], nn.Module], epilogues: list[str]) -> None:
    calls = read(build, *IMAGE).calls
    assert sorted(s.epilogue for s in calls.elements()) == epilogues
    assert {conv(s.epilogue) for s in calls} == set(calls)


def test_a_linear_layer_of_a_sequence_keeps_its_epilogue() -> None:
    """PyTorch flattens the sequence around the product; tasks do not."""

    def block(x: torch.Tensor, up: nn.Module, down: nn.Module) -> torch.Tensor:
        return x + down(nn.functional.gelu(up(x)))

    found = read(lambda: Function(block, up=nn.Linear(8, 32), down=nn.Linear(32, 8)), 1, 6, 8)
    assert found.calls == {
        Dense(rows=6, in_features=8, out_features=32, epilogue="bias_gelu"): 1,
        Dense(rows=6, in_features=32, out_features=8, epilogue="bias_add"): 1,
    }


def test_a_batch_norm_in_front_stands_alone_with_its_relu() -> None:
    found = read(lambda: nn.Sequential(nn.BatchNorm2d(8), nn.ReLU(), conv_layer(False)), *IMAGE)
    assert found.calls == {
        BatchNorm(batch=1, channels=8, height=6, width=6, epilogue="relu"): 1,
        conv("none"): 1,
    }


@pytest.mark.parametrize(
    ("activation", "epilogue"), [(nn.ReLU(), "relu"), (nn.SiLU(inplace=True), "silu"), (nn.GELU(), "none")]
)
def test_an_activation_behind_a_group_norm_is_fused(activation: nn.Module, epilogue: str) -> None:
    found = read(lambda: nn.Sequential(nn.GroupNorm(2, 8), activation), *IMAGE)
    assert found.calls == {GroupNorm(batch=1, channels=8, groups=2, height=6, width=6, epilogue=epilogue): 1}


def test_a_batch_norm_folds_into_a_grouped_convolution_of_video() -> None:
    layers = [nn.Conv3d(4, 8, 1, groups=2, bias=False), nn.BatchNorm3d(8), nn.ReLU()]
    assert [s.epilogue for s in read(lambda: nn.Sequential(*layers), 1, 4, 2, 3, 3).calls] == ["bias_relu"]


@pytest.mark.parametrize(
    ("build", "shape", "reason"),
    [
        (lambda: nn.ConvTranspose2d(8, 8, 2, groups=2), IMAGE,
         "grouped, dilated or 3-D transposed convolution"),
        (lambda: nn.GroupNorm(2, 8), (1, 8, 6), "group norm that is not over images"),
        (lambda: nn.Softmax(1), (2, 3, 9), "softmax over another axis than the last"),
        (lambda: nn.MaxPool2d(2, ceil_mode=True), (1, 8, 7, 7), "pooling that rounds its output up"),
        (lambda: nn.MaxPool2d(2, dilation=2), IMAGE, "dilated pooling"),
        (lambda: nn.AdaptiveAvgPool2d(4), IMAGE, "adaptive pooling with windows of different sizes"),
        (lambda: nn.BatchNorm1d(8), (3, 8), "batch norm of its own that is not over images"),
        (lambda: Function(lambda x: x.sum(1)), (2, 5, 9), "reduction over an axis in the middle"),
        (lambda: Function(lambda x: x.sum((0, 2))), (2, 5, 9), "reduction over axes that are apart"),
        (lambda: Function(lambda x: torch.linalg.vector_norm(x, 1, -1)), (2, 5),
         "norm of another order or over another axis than the last"),
        (lambda: nn.ConvTranspose2d(8, 8, 2, padding=2), IMAGE,
         "conv2d_transpose outside what the settings allow"),
    ],
)  # fmt: skip
def test_what_no_settings_describe_is_counted(
    build: Callable[[], nn.Module], shape: tuple[int, ...], reason: str
) -> None:
    found = read(build, *shape)
    assert found.skipped == {reason: 1}
    assert not found.calls
