"""Attention of a network with symbolic extents as one function, in all of its places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from foretune.compiler.networks import load_network
from foretune.compiler.networks.dynamic.attention import ATTENTION
from foretune.compiler.networks.dynamic.dynamic_inputs import dynamic_inputs
from foretune.compiler.networks.dynamic.lowering import scheduled, to_symbolic_relax
from foretune.compiler.networks.inputs import example_inputs
from foretune.compiler.networks.lowering.lowering import AS_FASTEST, Lowering
from foretune.inference.deploy.compile import flatten
from foretune.inference.dynamic.run import compile_symbolic
from support.cpus import HERE, multiplies
from torch import nn

NETWORK = f"{__name__}:Heads"
WIDTH, HEADS = 64, 2


class Heads(nn.Module):
    """Layers of attention, with a mask for each batch; `temperature` also scales the scores."""

    def __init__(self, layers: int = 2, temperature: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(layers))
        self.temperature = temperature

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = (1.0 - mask[:, None, None, :]) * -1e4
        for layer in self.layers:
            query, key, value = layer(x).chunk(3, -1)
            query, key, value = (
                one.reshape(*one.shape[:2], HEADS, -1).transpose(1, 2) for one in (query, key, value)
            )
            scores = query @ key.transpose(2, 3) * (WIDTH // HEADS) ** -0.5
            if self.temperature:
                scores = scores / (1.0 + x.abs().mean())
            weights = torch.softmax(scores + hidden, -1)
            x = x + (weights @ value).transpose(1, 2).reshape(x.shape)
        return x


def made(inputs: Sequence[Any], lowering: Lowering = AS_FASTEST, **kwargs: Any) -> tuple[Any, Any, Any]:
    """Network with its dynamic shapes, and the module of fused functions."""
    dynamic = dynamic_inputs(NETWORK, inputs, 1, {})
    network = load_network(NETWORK, inputs=dynamic.at(dynamic.traced), kwargs=kwargs)
    return network, dynamic, to_symbolic_relax(network, dynamic, HERE, lowering)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [
        pytest.param("float32", 1e-5, marks=multiplies("float32")),
        pytest.param("bfloat16", 2**-5, marks=multiplies("bfloat16")),
    ],
)
@pytest.mark.parametrize(
    ("inputs", "sizes"),
    [
        (
            [["b=1:4", "n=1:300", WIDTH], ["b", "n"]],
            [{"b": 1, "n": 1}, {"b": 4, "n": 2}, {"b": 3, "n": 7}, {"b": 2, "n": 97}, {"b": 4, "n": 300}],
        ),
        ([[1, "n=1:65", WIDTH], [1, "n"]], [{"n": 1}, {"n": 31}, {"n": 33}, {"n": 65}]),
        ([["b=1:4", 17, WIDTH], ["b", 17]], [{"b": 1}, {"b": 3}, {"b": 4}]),
    ],
    ids=["both", "length", "batch"],
)
def test_outputs_are_those_of_pytorch(
    inputs: Sequence[Any], sizes: Sequence[dict[str, int]], dtype: str, tolerance: float
) -> None:
    lowering = Lowering(dtype=dtype)
    network, dynamic, fused = made(inputs, lowering)
    module, tasks = scheduled(fused, dynamic, HERE, lowering=lowering)
    assert [task["name"] for task in tasks if task["kind"] == ATTENTION] == ["fused_attention"]
    compiled = compile_symbolic(module, dynamic, HERE, "heads", tasks)
    for at in sizes:
        x, mask = example_inputs(dynamic.at(at), 0)
        mask = (mask > 0).astype(np.float32)
        mask[:, 0] = 1.0
        with torch.no_grad():
            expected = network.module(torch.from_numpy(x), torch.from_numpy(mask)).numpy()
        (found,) = flatten(compiled.bind(x, mask)())
        np.testing.assert_allclose(found.numpy(), expected, rtol=10 * tolerance, atol=tolerance)


@multiplies("float32")
def test_layers_share_one_function() -> None:
    _, dynamic, fused = made([["b=1:4", "n=1:300", WIDTH], ["b", "n"]])
    module, tasks = scheduled(fused, dynamic, HERE)
    assert module["main"].script().count("fused_attention") == 2
    assert sum(task["kind"] == ATTENTION for task in tasks) == 1
    assert not [task["name"] for task in tasks if "softmax" in task["name"]]


@multiplies("float32")
def test_attention_may_be_left_as_separate_functions() -> None:
    _, dynamic, fused = made([["b=1:4", "n=1:300", WIDTH], ["b", "n"]])
    _, tasks = scheduled(fused, dynamic, HERE, lowering=Lowering(attention="off"))
    assert not [task for task in tasks if task["kind"] == ATTENTION]
    assert [task["name"] for task in tasks if "softmax" in task["name"]]


@multiplies("float32")
def test_scores_that_are_scaled_by_an_array_are_no_attention() -> None:
    _, dynamic, fused = made([["b=1:4", "n=1:300", WIDTH], ["b", "n"]], temperature=True)
    _, tasks = scheduled(fused, dynamic, HERE)
    assert not [task for task in tasks if task["kind"] == ATTENTION]
