"""Products of computed matrices with columns of zeros: which get them, and that outputs stay."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from foretune.dataset.networks import Lowering, extract_tasks, to_relax
from foretune.dataset.networks.loading import Network
from foretune.dataset.networks.lowering import AS_FASTEST
from foretune.dataset.task import Task
from foretune.dataset.templates.contraction import read_contraction
from foretune.dataset.tvm_compat import parse_target
from foretune.inference.deploy.compile import compile_network
from foretune.inference.deploy.outputs import compare_outputs
from torch import nn
from tvm.target import Target

SERVER = Target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})


class Scores(nn.Module):
    """Scaled products of queries and keys, as attention has them."""

    def forward(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return torch.softmax(queries @ keys.transpose(-1, -2) * 0.125, -1)


def scores(tokens: int) -> Network:
    arrays = [np.random.default_rng(seed).standard_normal((2, tokens, 24)) for seed in range(2)]
    return Network("scores", tuple(array.astype(np.float32) for array in arrays), Scores())


def products(network: Network, target: Target, lowering: Lowering = AS_FASTEST) -> list[Task]:
    tasks = extract_tasks(to_relax(network, target, lowering), target, network.name)
    return [task for task in tasks if task.operator == "batch_matmul"]


@pytest.mark.parametrize(
    ("tokens", "columns"), [(79, 80), (197, 208), (64, 64), (58, 58), (67, 67), (128, 128), (7, 7)]
)
def test_columns_without_a_panel_are_filled_up_by_a_tenth_at_most(tokens: int, columns: int) -> None:
    """58 columns are a panel of four vectors, 7 are one; 67 would become 80."""
    (product,) = products(scores(tokens), SERVER)
    contraction = read_contraction(product.mod)
    assert contraction is not None
    assert (contraction.row_count, contraction.column.extent) == (tokens, columns)


def test_outputs_stay() -> None:
    target = parse_target("llvm")
    network = scores(197)
    mod = to_relax(network, target, AS_FASTEST)
    check = compare_outputs(network.reference_outputs(), compile_network(mod, target)(*network.inputs))
    assert check.agrees


def test_it_can_be_left_out_and_is_for_float32_on_a_cpu_with_vectors() -> None:
    network = scores(197)
    lowering = Lowering(fill_channels=False)
    for target, asked in ((SERVER, lowering), (Target({"kind": "llvm", "mcpu": "x86-64"}), AS_FASTEST)):
        (product,) = products(network, target, asked)
        assert "208" not in product.mod.script()


def test_a_constant_weight_stays() -> None:
    torch.manual_seed(0)
    layer = Network("layer", (np.ones((4, 24), np.float32),), nn.Linear(24, 197))
    tasks = extract_tasks(to_relax(layer, SERVER, AS_FASTEST), SERVER, "layer")
    assert not any("208" in task.mod.script() for task in tasks)
