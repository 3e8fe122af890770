"""The hash of a network tells apart what computes something else, and nothing more."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from foretune.compiler.networks import Network
from foretune.compiler.networks.cached.fingerprint import fingerprint
from onnx import TensorProto, helper
from torch import nn


class Layer(nn.Module):
    """A product, a constant of the forward pass, a sum in place, and an output that is a list."""

    def __init__(self, scale: float = 2.0, weight: float = 1.0, swapped: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        nn.init.constant_(self.linear.weight, weight)
        nn.init.constant_(self.linear.bias, 0.5)
        self.scale, self.swapped = scale, swapped

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        y = self.linear(x) * torch.tensor([1.0, self.scale])
        y += self.scale
        return [y.relu(), y] if self.swapped else [y, y.relu()]


class Calls(nn.Module):
    """Calls a function."""

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def network(module: nn.Module, shape: tuple[int, ...] = (4, 3), value: float = 1.0) -> Network:
    return Network("net", (np.full(shape, value, np.float32),), module.eval())


def test_equal_networks_have_one_hash_whatever_the_inputs_are() -> None:
    first = fingerprint(network(Layer()))
    assert first is not None and len(first) == 64
    assert first == fingerprint(network(Layer(), value=-3.0)) == fingerprint(network(Layer()))


@pytest.mark.parametrize(
    "other",
    [
        network(Layer(weight=1.0000001)),  # as after further training
        network(Layer(scale=3.0)),
        network(Layer(swapped=True)),
        network(Layer(), shape=(5, 3)),
        network(nn.Sequential(Layer(), Calls(lambda outputs: outputs[:1]))),
    ],
    ids=["weight", "setting", "order of outputs", "shape", "number of outputs"],
)
def test_another_network_has_another_hash(other: Network) -> None:
    assert fingerprint(other) not in (None, fingerprint(network(Layer())))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1 if x.sum() > 0 else x - 1,
        lambda x: x * x.max().item(),
        lambda x: x + torch.randn(3),
        lambda x: x + torch.randn(3, generator=torch.Generator()),
        lambda x: x[x > 0],
        lambda x: x if torch.equal(x, x.relu()) else x + 1,
        lambda x: x.no_such_method(),
    ],
    ids=["branch", "value", "random", "own generator", "shape", "equal", "error"],
)
def test_a_network_that_one_run_does_not_tell_has_none(function: Callable[[torch.Tensor], Any]) -> None:
    assert fingerprint(network(Calls(function))) is None


def test_values_of_weights_may_be_seen() -> None:
    def scaled(limit: float) -> Network:
        weight = torch.tensor([1.0, limit])
        return network(Calls(lambda x: x * weight.max().item() if (weight > 2).any() else x - 1))

    found = [fingerprint(scaled(limit)) for limit in (3.0, 4.0, 3.0, 1.0)]
    assert None not in found and len(set(found)) == 3 and found[0] == found[2]


def test_a_view_of_a_weight_that_takes_in_an_input_counts_as_one() -> None:
    def changed(x: torch.Tensor) -> torch.Tensor:
        weight = torch.zeros(2)
        weight[:1].add_(x[0, 0])
        return x + 1 if weight.sum() > 0 else x

    assert fingerprint(network(Calls(changed))) is None


def test_views_and_tensors_are_told_apart_by_what_made_them() -> None:
    """x + x.relu() and x.relu() + x.relu() have the same operators on tensors of the same shapes."""
    ways = [lambda x: x.relu() + x, lambda x: x.relu() + x.relu(), lambda x: x + x.relu()]
    assert len({fingerprint(network(Calls(way))) for way in ways}) == 3


def onnx_network(folder: Path, weight: float, operator: str = "Mul") -> Network:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
    tensor = onnx.numpy_helper.from_array(np.full(4, weight, np.float32), "w")
    graph = helper.make_graph([helper.make_node(operator, ["x", "w"], ["y"])], "graph", [x], [y], [tensor])
    path = folder / f"{weight}{operator}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return Network(path.stem, (np.ones(4, np.float32),), onnx_path=path)


def test_a_file_is_told_by_its_content(tmp_path: Path) -> None:
    first = fingerprint(onnx_network(tmp_path, 1.0))
    (tmp_path / "copy").mkdir()
    assert first is not None and first == fingerprint(onnx_network(tmp_path / "copy", 1.0))
    others = [onnx_network(tmp_path, 2.0), onnx_network(tmp_path, 1.0, "Add")]
    assert len({first, *map(fingerprint, others)}) == 3


def test_external_data_of_a_file_count(tmp_path: Path) -> None:
    found = []
    for weight in (1.0, 2.0):
        inner = onnx_network(tmp_path, weight)
        assert inner.onnx_path is not None
        path = tmp_path / "external.onnx"
        onnx.save(
            onnx.load(inner.onnx_path), path, save_as_external_data=True, location="w.bin", size_threshold=0
        )
        found.append(fingerprint(Network("net", inner.inputs, onnx_path=path)))
        (tmp_path / "w.bin").unlink()
    assert None not in found and found[0] != found[1]


def test_int8_without_a_quantised_file_has_none(tmp_path: Path) -> None:
    assert fingerprint(onnx_network(tmp_path, 1.0), quantised=True) is None


def test_neither_loading_nor_the_hash_imports_the_compiler_of_torch() -> None:
    code = (
        "import sys; sys.modules['tvm'] = None\n"
        "from foretune.compiler.networks.loading import load_network\n"
        "from foretune.compiler.networks.cached.fingerprint import fingerprint\n"
        "settings = dict(in_features=3, out_features=4)\n"
        "network = load_network('torch.nn:Linear', inputs=[[2, 3]], kwargs=settings)\n"
        "assert len(fingerprint(network)) == 64\n"
        "assert not {'torch._dynamo', 'sympy', 'scipy', 'pandas', 'sklearn'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
