"""Products of groups of rows, as experts of a mixture compute them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from foretune.compiler.networks import load_network, to_relax
from foretune.compiler.networks.importing.decomposing.grouped_products import grouped_product
from foretune.compiler.networks.lowering.lowering import AS_FASTEST
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy.dry_run import plain_network
from torch import nn


def test_each_row_meets_the_matrix_of_its_group():
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    weights = torch.tensor([[[1.0], [0.0]], [[9.0], [9.0]], [[0.0], [1.0]]])
    ends = torch.tensor([2, 2, 3], dtype=torch.int32)  # the second group is empty, and the last row in none
    assert grouped_product(rows, weights, ends).tolist() == [[1.0], [3.0], [6.0], [0.0]]


class Experts(nn.Module):
    """A layer of Mixtral with four experts, of which each position uses two."""

    def __init__(self) -> None:
        super().__init__()
        transformers = pytest.importorskip("transformers")
        config = transformers.MixtralConfig(
            vocab_size=32,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            num_local_experts=4,
            num_experts_per_tok=2,
        )
        torch.manual_seed(0)
        self.network = transformers.MixtralModel(config)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.network(inputs_embeds=hidden, use_cache=False)[0]


def test_a_mixture_of_experts_is_converted():
    network = load_network(f"{__name__}:Experts", inputs=[[1, 6, 16]])
    target = parse_target("llvm")
    (found,) = plain_network(to_relax(network, target, AS_FASTEST), target)(*network.inputs)
    np.testing.assert_allclose(found, network.reference_outputs()[0], rtol=1e-4, atol=1e-5)
