"""Reshapes behind element-wise steps: which functions are left, and that outputs stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from foretune.compiler.networks import Lowering, extract_tasks, to_relax
from foretune.compiler.networks.loading import Network
from foretune.compiler.networks.lowering.lowering import AS_FASTEST
from foretune.inference.deploy.compile import compile_network
from foretune.inference.deploy.outputs import compare_outputs
from support.cpus import HERE, cpu
from torch import nn
from tvm.target import Target

pytestmark = pytest.mark.cpu

SERVER = cpu("cooperlake")


class Feedforward(nn.Module):
    """Two linear layers with an activation between them, and what is added behind them."""

    def __init__(self, add: str = "residual") -> None:
        super().__init__()
        self.first, self.second, self.add = nn.Linear(16, 32), nn.Linear(32, 16), add
        self.scale = nn.Parameter(torch.linspace(0.5, 2.0, 16))

    def forward(self, x: torch.Tensor) -> Any:
        y = self.second(nn.functional.gelu(self.first(x)))
        if self.add == "residual":
            return y + x
        if self.add == "scale":
            return torch.tanh(y * self.scale)
        return y + x[:, :1]  # one row for all


class Scores(nn.Module):
    """Scores of attention, scaled and masked, with another reader of the plain ones."""

    def __init__(self, heads: int, also: bool = False) -> None:
        super().__init__()
        self.heads, self.also = heads, also
        self.register_buffer("mask", torch.triu(torch.full((7, 7), -5.0), 1)[None, None])

    def forward(self, x: torch.Tensor) -> Any:
        images, tokens, width = x.shape
        heads = x.view(images, tokens, self.heads, width // self.heads).transpose(1, 2)
        plain = heads @ heads.transpose(2, 3)
        scores = plain * 0.25 + self.mask
        return (scores, plain) if self.also else torch.softmax(scores, -1)


def lowered(
    module: nn.Module, shape: tuple[int, ...], lowering: Lowering = AS_FASTEST, target: Target = SERVER
) -> Any:
    data = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    network = Network("network", (data,), module.eval())
    return network, to_relax(network, target, lowering)


def elementwise(mod: Any) -> list[str]:
    return [task.name for task in extract_tasks(mod, SERVER, "n") if task.operator == "elementwise"]


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("add", ["residual", "scale"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_steps_of_linear_layers_are_fused_with_them(images: int, add: str, dtype: str) -> None:
    _, mod = lowered(Feedforward(add), (images, 5, 16), Lowering(dtype=dtype, fill_channels=False))
    names = [task.name for task in extract_tasks(mod, SERVER, "n")]
    assert sum("matmul" in name for name in names) == 2
    assert not any("gelu" in name or "tanh" in name for name in elementwise(mod))
    assert not any("add" in name for name in elementwise(mod))


def test_scale_and_mask_of_one_image_are_fused_with_the_scores() -> None:
    _, mod = lowered(Scores(4), (1, 7, 16))
    assert not any("multiply" in name or "add" in name for name in elementwise(mod))


@pytest.mark.parametrize("images", [1, 2])
@pytest.mark.parametrize(
    "module",
    [Feedforward(), Feedforward("scale"), Feedforward("row"), Scores(4), Scores(2, also=True)],
    ids=["residual", "scale", "row", "scores", "both"],
)
def test_outputs_stay(module: nn.Module, images: int) -> None:
    tokens = 7 if isinstance(module, Scores) else 5
    network, mod = lowered(module, (images, tokens, 16), target=HERE)
    check = compare_outputs(network.reference_outputs(), compile_network(mod, HERE)(*network.inputs))
    assert check.agrees
