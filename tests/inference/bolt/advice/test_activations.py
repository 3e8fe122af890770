"""Activations: their values against PyTorch, and how they are found again behind a layer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from foretune.compiler.described_task import described_task
from foretune.compiler.networks import extract_tasks, load_network, to_relax
from foretune.compiler.operators import Dense, DepthwiseConv2d
from foretune.compiler.tvm_compat import as_task_module, parse_target
from foretune.inference.bolt.advice.activations import (
    ACTIVATIONS,
    APART,
    DEFAULT,
    UnknownActivationError,
    check_activations,
)
from foretune.inference.bolt.advice.layers import OperatorEpilogue, Variant, read_epilogue, read_layers
from hypothesis import given, settings
from hypothesis import strategies as st
from support.advice import CONV, layer
from support.operators import run
from torch.nn import functional as F
from tvm import te, topi

TARGET = parse_target("llvm")
PYTORCH: dict[str, Any] = {
    "none": lambda x: x,
    "relu": F.relu,
    "relu6": F.relu6,
    "leaky_relu": F.leaky_relu,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "silu": F.silu,
    "gelu": F.gelu,
    "softplus": F.softplus,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_values_are_those_of_pytorch(name: str) -> None:
    x = torch.tensor([[-200.0, -8.0, -3.0, -1.0, -1e-3, 0.0, 1e-3, 0.5, 3.0, 7.0, 200.0]])
    data = te.placeholder(tuple(x.shape), name="data")
    # An activation of nothing stores nothing, so that the sum stands in for a layer.
    func = te.create_prim_func([data, ACTIVATIONS[name](topi.add(data, 0.0))])
    output = run(described_task(as_task_module(func)), [x])
    np.testing.assert_allclose(output, PYTORCH[name](x.double()).numpy(), rtol=2e-6, atol=2e-7)


def test_names() -> None:
    assert set(DEFAULT) | set(APART) <= set(ACTIVATIONS)
    check_activations(DEFAULT)
    with pytest.raises(UnknownActivationError, match=r"activations=swish: unknown; choose among none, relu"):
        check_activations(["relu", "swish"])


@given(
    name=st.sampled_from(sorted(ACTIVATIONS)),
    added=st.sampled_from(["none", "bias", "bias_add", "add"]),
    channels=st.integers(1, 40),
)
@settings(max_examples=25)
def test_an_epilogue_is_read_as_it_was_built(name: str, added: str, channels: int) -> None:
    variant = Variant(replace(CONV, out_channels=channels, epilogue=added), name)
    found = read_epilogue(variant.task("layer").mod)
    assert found == OperatorEpilogue(added, name)


@pytest.mark.parametrize(
    "plain",
    [
        DepthwiseConv2d(batch=1, in_channels=8, height=6, width=6, kernel=(3, 3), epilogue="bias"),
        Dense(rows=4, in_features=8, out_features=12, epilogue="bias"),
        Dense(rows=1, in_features=8, out_features=12, epilogue="bias"),
    ],
    ids=lambda op: op.label,
)
def test_other_operators_have_activations_too(plain: Any) -> None:
    (found,) = read_layers([Variant(plain, "hardswish").task("layer")])
    assert found.variant == Variant(plain, "hardswish")


def test_steps_behind_an_activation_are_not_read() -> None:
    residual = te.placeholder((1, 5, 7, 24), name="residual")
    *inputs, output = CONV.tensors()
    activated = topi.nn.relu(output)
    for changed in (topi.add(activated, residual), topi.nn.relu(topi.multiply(output, residual))):
        func = te.create_prim_func([*inputs, residual, changed])
        assert read_epilogue(as_task_module(func)) is None
    assert read_layers([described_task(as_task_module(func))]) == []


def test_another_slope_is_another_activation() -> None:
    *inputs, output = CONV.tensors()
    func = te.create_prim_func([*inputs, topi.nn.leaky_relu(output, 0.2)])
    assert read_epilogue(as_task_module(func)) is None


def test_layers_of_an_imported_network_are_read_and_built_again() -> None:
    """Each rebuilt layer is the network's own task, by its hash."""
    network = load_network("support.advice:ManyActivations", inputs=[[1, 4, 8, 8]])
    tasks = extract_tasks(to_relax(network, TARGET), TARGET, network.name)
    layers = read_layers(tasks)
    wanted = sorted(set(ACTIVATIONS) - set(APART) | {"none"})
    assert sorted(one.variant.activation for one in layers) == wanted
    assert [one.task.workload_hash for one in layers] == [one.of_network.workload_hash for one in layers]
    # The last convolution adds a residual, applies ReLU and ELU, which has no name here.
    assert len(layers) == sum(task.operator == "conv2d" for task in tasks) - 1


def test_names_of_layers() -> None:
    assert layer().name == "conv2d 16>24 9x7 3x3/2"
    dense = Dense(rows=128, in_features=768, out_features=3072, epilogue="bias")
    depthwise = DepthwiseConv2d(batch=1, in_channels=8, height=6, width=6, kernel=(3, 3))
    assert layer(depthwise).name == "depthwise_conv2d 8 6x6 3x3"
    assert layer(dense).name == "dense 768>3072 128 rows"
