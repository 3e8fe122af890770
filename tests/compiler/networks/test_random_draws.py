"""Networks that draw random numbers are refused by the name of the operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from foretune.compiler.networks import load_network
from foretune.compiler.networks.random_draws import RandomNetworkError, require_equal
from onnx import TensorProto, helper
from torch import nn
from torch.nn import functional


class Noisy(nn.Module):
    """Draws random numbers in one of several ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.way == "dropout":
            return functional.dropout(x, 0.5, training=True)
        if self.way == "attention":
            return functional.scaled_dot_product_attention(x, x, x)
        noise = torch.randn_like(x)
        return x + noise if self.way == "noise" else x + 0 * noise


@pytest.mark.parametrize(("way", "operator"), [("noise", "aten.randn_like"), ("dropout", "aten.dropout")])
def test_a_network_that_draws_is_refused(way: str, operator: str) -> None:
    with pytest.raises(RandomNetworkError, match=rf"Noisy: .* random numbers of {operator}, "):
        load_network(f"{__name__}:Noisy", inputs=[[1, 2, 4, 8]], kwargs={"way": way})


@pytest.mark.parametrize("way", ["attention", "unused"])
def test_draws_that_change_no_output_are_accepted(way: str) -> None:
    load_network(f"{__name__}:Noisy", inputs=[[1, 2, 4, 8]], kwargs={"way": way})


def test_evaluations_are_equal_up_to_the_order_of_sums() -> None:
    one = [np.array([1.0, np.nan, np.inf]), np.array([3])]
    require_equal("net", one, [one[0] + 1e-7, one[1]])
    for other in ([one[0] + 0.1, one[1]], [one[0], one[1] + 1], [one[0]]):
        with pytest.raises(RandomNetworkError, match=r"network=net: .* changes its own state"):
            require_equal("net", one, other)


def onnx_file(path: Path, nodes: list[Any], **constants: Any) -> str:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    tensors = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "graph", [x], [y], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


def test_an_onnx_operator_that_draws_is_named(tmp_path: Path) -> None:
    noise = helper.make_node("RandomNormalLike", ["x"], ["noise"], name="hiss")
    nodes = [noise, helper.make_node("Add", ["x", "noise"], ["y"])]
    with pytest.raises(RandomNetworkError, match=r"ONNX operator RandomNormalLike \(node hiss\)"):
        load_network(onnx_file(tmp_path / "net.onnx", nodes))
    for training in (True, False):
        drop = helper.make_node("Dropout", ["x", "ratio", "training"], ["y"])
        path = onnx_file(tmp_path / "drop.onnx", [drop], ratio=np.float32(0.5), training=training)
        if training:
            with pytest.raises(RandomNetworkError, match=r"Dropout \(node y, in training mode\)"):
                load_network(path)
        else:
            load_network(path)
