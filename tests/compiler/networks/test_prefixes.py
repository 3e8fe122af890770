"""Networks that end early."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from foretune.compiler.networks import Network
from foretune.compiler.networks.prefixes import first_wrong, prefixes_of
from onnx import TensorProto, helper
from torch import nn

X = np.array([[1, -2], [3, 4]], np.float32)


class Halves(nn.Module):
    """Two branches of split columns."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(10.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = x.split(1, 1)
        return left.abs() + right * self.scale


def test_a_prefix_of_a_module_returns_what_is_read_later() -> None:
    prefixes = prefixes_of(Network("halves", (X,), Halves()))
    names = [operator.partition(" ")[0] for operator in prefixes.operators]
    assert names[0] == "aten.split.Tensor" and names[-1] == "aten.add.Tensor"
    assert prefixes.operators[-1] == "aten.add.Tensor (test_prefixes.py:28)"
    assert prefixes.first(1) is None  # a tuple, of which later operators take the parts
    product = names.index("aten.mul.Tensor") + 1
    part = prefixes.first(product)
    assert part is not None
    assert sorted(array.reshape(-1).tolist() for array in part.reference_outputs()) == [[-20, 40], [1, 3]]
    whole = prefixes.first(len(names))
    assert whole is not None and whole.reference_outputs()[0].tolist() == [[-19], [43]]


def test_a_prefix_of_a_file_returns_what_is_read_later(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Abs", ["x"], ["a"], name="first"),
        helper.make_node("Neg", ["x"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in "xy")
    model = helper.make_model(
        helper.make_graph(nodes, "graph", [x], [y]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.save(model, tmp_path / "net.onnx")
    prefixes = prefixes_of(Network("net", (X,), onnx_path=tmp_path / "net.onnx"))
    assert list(prefixes.operators) == ["Abs (node first)", "Neg (node b)", "Add (node y)"]
    part = prefixes.first(2)
    assert part is not None
    assert [array.tolist() for array in part.reference_outputs()] == [[[1, 2], [3, 4]], [[-1, 2], [-3, -4]]]


@pytest.mark.parametrize("wrong", range(7))
def test_halving_finds_the_first_wrong_operator(wrong: int) -> None:
    asked: list[int] = []

    def agree(count: int) -> bool:
        asked.append(count)
        return count <= wrong

    assert first_wrong(7, agree, lambda: True) == (wrong, wrong)
    assert len(asked) <= 3
    assert first_wrong(8, lambda _: False, lambda: False) == (0, 7)
