"""ONNX graphs as PyTorch modules: outputs of ONNX Runtime at every size, and extents that stay symbols."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from foretune.compiler.networks.importing.onnx_torch.graph_module import OnnxModule, SymbolicOnnxError
from onnx import TensorProto, helper

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def saved(
    path: Path, nodes: list[Any], inputs: dict[str, Any], constants: dict[str, Any], kind: int = FLOAT
) -> Path:
    """File of a graph that returns `y`; `inputs` has the declared shape of each."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    return path


def node(operator: str, *inputs: str, to: str = "y", **attributes: Any) -> Any:
    if operator == "Cast":
        return helper.make_node(operator, list(inputs), [to], to=FLOAT)
    return helper.make_node(operator, list(inputs), [to], name=f"the_{operator}", **attributes)


def runtimes(path: Path, *arrays: Any) -> Any:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    return session.run(None, dict(zip(names, arrays, strict=True)))[0]


def same_at(path: Path, *arrays: Any) -> None:
    expected = runtimes(path, *arrays)
    (found,) = OnnxModule(path)(*map(torch.from_numpy, arrays))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)
    assert found.numpy().dtype == expected.dtype


def floats(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


ONE = {"x": ["n", 4, "m"]}
INTS = {"zero": np.array(0), "one": np.array([1]), "rest": np.array([-1]), "two": np.array(2.0, np.float32)}

FIRST_EXTENT = [node("Shape", "x", to="s"), node("Gather", "s", "zero", to="n0", axis=0)]

GRAPHS = {
    "rows times the rest": (
        [
            *FIRST_EXTENT,
            node("Unsqueeze", "n0", "zeros", to="n1"),
            node("Concat", "n1", "rest", to="wanted", axis=0),
            node("Reshape", "x", "wanted"),
        ],
        {**INTS, "zeros": np.array([0])},
    ),
    "expand by a comparison with -1": (
        [
            node("Shape", "x", to="s"),
            node("ConstantOfShape", "three", to="ones", value=helper.make_tensor("v", INT, [1], [1])),
            node("Equal", "given", "rest", to="same"),
            node("Where", "same", "ones", "s", to="wanted"),
            node("Expand", "column", "wanted"),
        ],
        {**INTS, "three": np.array([3]), "given": np.array([-1, 4, -1]), "column": floats(1, 4, 1)},
    ),
    "scaled by the root of an extent": (
        [
            *FIRST_EXTENT,
            node("Cast", "n0", to="f"),
            node("Sqrt", "f", to="root"),
            node("Div", "x", "root"),
        ],
        INTS,
    ),
    "positions up to an extent": (
        [
            *FIRST_EXTENT,
            node("Range", "zero", "n0", "step", to="r"),
            node("Cast", "r", to="f"),
            node("Unsqueeze", "f", "axes", to="column"),
            node("Mul", "x", "column"),
        ],
        {**INTS, "step": np.array(1), "axes": np.array([1, 2])},
    ),
    "first rows of a table": (
        [
            *FIRST_EXTENT,
            node("Unsqueeze", "n0", "zeros", to="end"),
            node("Slice", "table", "zeros", "end", "zeros", to="part"),
            node("Add", "x", "part"),
        ],
        {**INTS, "zeros": np.array([0]), "table": floats(9, 4, 1)},
    ),
    "halves of an axis": (
        [
            helper.make_node("Split", ["x"], ["first", "second"], axis=1, num_outputs=2),
            node("Softmax", "first", to="soft", axis=-1),
            node("ReduceMean", "soft", "axes", keepdims=0),
        ],
        {"axes": np.array([1])},
    ),
    "backwards": (
        [node("Slice", "x", "rest", "least", "one", "rest")],
        {**INTS, "least": np.array([-(2**63)]), "one": np.array([1])},
    ),
    "wrapped indices": ([node("Gather", "x", "places", axis=1)], {"places": np.array([[-1, 0], [2, -4]])}),
    "pads and clips": (
        [node("Pad", "x", "pads", "two", to="wide"), node("Clip", "wide", "low", "")],
        {**INTS, "pads": np.array([0, 1, 0, 1, 0, 2]), "low": np.array(-0.5, np.float32)},
    ),
    "normalised": (
        [node("LayerNormalization", "x", "scale", to="n", axis=1), node("Erf", "n")],
        {"scale": floats(4, 5)},
    ),
    "last of equal extrema": (
        [
            node("ArgMax", "x", to="place", axis=1, keepdims=1, select_last_index=1),
            node("Cast", "place", to="f"),
            node("Pow", "f", "two"),
        ],
        INTS,
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_outputs_are_those_of_onnx_runtime_at_each_size(name: str, tmp_path: Path) -> None:
    nodes, constants = GRAPHS[name]
    path = saved(tmp_path / "net.onnx", nodes, ONE, constants)
    for n in (1, 3):
        same_at(path, floats(n, 4, 5))


def test_convolutions_and_pooling(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x", "w", "b", to="c", strides=[2, 1], pads=[1, 0, 0, 2], kernel_shape=[3, 3]),
        node("MaxPool", "c", to="m", kernel_shape=[2, 2], pads=[0, 0, 1, 1], strides=[2, 2]),
        node("AveragePool", "m", to="a", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
        node(
            "Resize", "a", "", "factors", to="r", mode="linear", coordinate_transformation_mode="half_pixel"
        ),
        node("GlobalAveragePool", "r"),
    ]
    constants = {"w": floats(6, 3, 3, 3), "b": floats(6), "factors": np.array([1, 1, 2, 2], np.float32)}
    path = saved(tmp_path / "net.onnx", nodes, {"x": ["n", 3, "h", "w"]}, constants)
    same_at(path, floats(1, 3, 9, 8))
    same_at(path, floats(2, 3, 13, 11))


@pytest.mark.parametrize(
    ("corners", "rounding", "factor"),
    [("asymmetric", "floor", 3.0), ("half_pixel", "round_prefer_floor", 3.0), ("asymmetric", "floor", 1.5)],
)
def test_pixels_repeat(corners: str, rounding: str, factor: float, tmp_path: Path) -> None:
    ways = {"mode": "nearest", "coordinate_transformation_mode": corners, "nearest_mode": rounding}
    factors = np.array([1, 1, factor, factor], np.float32)
    nodes = [node("Resize", "x", "", "factors", **ways)]
    path = saved(tmp_path / "net.onnx", nodes, {"x": ["n", 2, "h", "w"]}, {"factors": factors})
    same_at(path, floats(1, 2, 4, 6))


def test_bounds_may_depend_on_values(tmp_path: Path) -> None:
    nodes = [node("ReduceMean", "x", to="mean", keepdims=0), node("Clip", "x", "mean")]
    same_at(saved(tmp_path / "net.onnx", nodes, ONE, {}), floats(2, 4, 3))


def test_a_definition_stands_for_an_operator_without_conversion(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", [node("MeanVarianceNormalization", "x", axes=[0, 2])], ONE, {})
    assert "MeanVarianceNormalization" not in {one.op for one in OnnxModule(path)._nodes}
    same_at(path, floats(3, 4, 5))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Det", "x")], r"Det \(node the_Det\) works for fixed extents only: foretune does not"),
        ([node("ReduceSum", "x", "axes")], r"ReduceSum .*its operand axes depends on values"),
        (
            [node("Resize", "x", "", "sizes", mode="nearest", nearest_mode="ceil")],
            r"Resize .*neither asymmetric nor rounded down",
        ),
    ],
)
def test_the_error_names_the_operator(nodes: list[Any], message: str, tmp_path: Path) -> None:
    inputs = {**ONE, "axes": [1]} if "ReduceSum" in message else ONE
    path = saved(tmp_path / "net.onnx", nodes, inputs, {"sizes": np.array([1, 1, 2], np.float32)})
    with pytest.raises(SymbolicOnnxError, match=message):
        OnnxModule(path)(*(torch.ones(2, 4, 4), torch.ones(1))[: len(inputs)])


def test_an_output_that_is_not_computed_is_named(tmp_path: Path) -> None:
    training = helper.make_node(
        "BatchNormalization", ["x", *"abcd"], ["z", "y", "v"], name="bn", training_mode=1
    )
    constants = dict.fromkeys("abcd", np.ones(4, np.float32))
    path = saved(tmp_path / "net.onnx", [training], ONE, constants)
    with pytest.raises(SymbolicOnnxError, match=r"BatchNormalization \(node bn\).*its output y is not"):
        OnnxModule(path)(torch.ones(2, 4, 3))


def test_names_of_inputs_become_parameters(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", [node("Add", "input.1", "1x")], {"input.1": ["n"], "1x": ["n"]}, {})
    assert list(signature(OnnxModule(path).forward).parameters) == ["input_1", "_1x"]
