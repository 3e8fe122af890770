"""Example inputs: constants, edge cases and copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from foretune.compiler.networks import Network, load_network
from foretune.compiler.networks.inputs import BadInputShapeError, InputRange, edge_array, example_inputs
from onnx import TensorProto, helper
from torch import nn


def test_edge_cases_have_zeros_negative_large_and_equal_elements() -> None:
    floats = edge_array(np.array([[2, 3, 4], [5, 6, 7]], np.float32), 2)
    assert floats.tolist() == [[2, -3, 0], [50, -1, 1]] and floats.dtype == np.float32
    assert edge_array(np.array([3, 4, 5, 6, 7]), 100).tolist() == [99, 4, 0, 99, 99]
    assert edge_array(np.array([False, False, True]), 2).tolist() == [True, False, False]
    assert edge_array(np.array(0.5), 2) == 0.5


def test_a_range_is_for_commands_that_take_dynamic_shapes() -> None:
    with pytest.raises(BadInputShapeError, match=r"n=1:512 is an extent of dynamic shapes.*give a number"):
        example_inputs([[1, "n=1:512"]], 0)  # type: ignore[list-item]


def test_fixed_inputs_stay_in_other_inputs() -> None:
    arrays = (np.array([1, 2], np.float32), np.array([7, 8]))
    network = Network("net", arrays, ranges=(InputRange(), InputRange(fixed=True)))
    for other in (network.with_edge_inputs(), network.with_other_inputs(3)):
        assert other.inputs[1].tolist() == [7, 8] and other.inputs[0].tolist() != [1, 2]
    unknown = Network("net", arrays).with_edge_inputs()
    assert unknown.inputs[1].tolist() == [8, 8]  # the largest element that is known to be valid


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"value": 16000}, np.array(16000)),
        ({"value": 0.5}, np.array(0.5, np.float32)),
        ({"value": [[1, 2]], "dtype": "int32"}, np.array([[1, 2]], np.int32)),
        ({"value": True}, np.array(True)),
    ],
)
def test_a_value_is_the_input(spec: dict[str, Any], expected: np.ndarray) -> None:
    (array,) = example_inputs([spec], 0)
    assert array.dtype == expected.dtype and array.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"value": 1.5, "dtype": "int64"}, "int64 does not hold 1.5"),
        ({"value": 300, "dtype": "uint8"}, "uint8 does not hold 300"),
        ({"value": "a"}, "'a' is no number"),
        ({"value": None}, "None is no number"),
        ({"value": [[1], [2, 3]]}, "nested lists of equal lengths"),
        ({"value": 1, "high": 3}, "a value has no high"),
        ({"value": 1, "dtype": "complex64"}, "complex64 cannot be an input"),
    ],
)
def test_a_value_that_cannot_be_is_refused(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInputShapeError, match=rf"inputs\[0\]=.*{message}"):
        example_inputs([spec], 0)


def onnx_file(path: Path, declared: list[Any]) -> str:
    """y = x * rate, with an int64 rate."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    rate = helper.make_tensor_value_info("rate", TensorProto.INT64, declared)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    nodes = [
        helper.make_node("Cast", ["rate"], ["factor"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "factor"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "graph", [x, rate], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path)


@pytest.mark.parametrize(("declared", "value"), [([], 16000), ([1], 16000), (["n"], [16000])])
def test_a_value_becomes_a_constant_of_an_onnx_file(tmp_path: Path, declared: Any, value: Any) -> None:
    path = onnx_file(tmp_path / "net.onnx", declared)
    network = load_network(path, inputs=[[2], {"value": value}])
    (x,), (y,) = network.inputs, network.reference_outputs()
    assert network.name == "net" and y.reshape(-1).tolist() == (x * 16000).tolist()
    main = network.onnx_path
    assert main is not None and [one.name for one in onnx.load(main).graph.input] == ["x"]


def test_a_value_that_contradicts_the_file_is_refused(tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "net.onnx", [1])
    for spec, message in (
        ({"value": [1, 2]}, r"the value has shape \[2\], and the file declares \[1\]"),
        ({"value": 1, "dtype": "int32"}, "the file declares int64; leave dtype out"),
        ({"value": 0.5}, "int64 does not hold 0.5"),
    ):
        with pytest.raises(BadInputShapeError, match=rf"inputs\[1\]=.*{message}"):
            load_network(path, inputs=[[2], spec])


class Doubling(nn.Module):
    """Changes its input in place and returns it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(2)


def test_a_network_that_changes_its_input_works_on_a_copy() -> None:
    network = Network("doubling", (np.ones(3, np.float32),), Doubling())
    first, second = network.reference_outputs(), network.reference_outputs()
    assert first[0].tolist() == second[0].tolist() == [2, 2, 2]
    assert network.inputs[0].tolist() == [1, 1, 1]
