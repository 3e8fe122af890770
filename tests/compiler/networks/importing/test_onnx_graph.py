"""ONNX graphs before their import: shapes, constants, definitions, and files that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from foretune.compiler.networks.importing.onnx_converters import OnnxConversionError, imported
from foretune.compiler.networks.importing.onnx_graph import BadOnnxError, load, prepared
from foretune.compiler.networks.importing.onnx_import import to_relax
from onnx import TensorProto, helper

FLOAT = TensorProto.FLOAT


def saved(path: Path, nodes: list[Any], inputs: dict[str, Any], outputs: list[str], **constants: Any) -> Path:
    """File of a graph; `inputs` has the declared shape of each."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def test_shape_arithmetic_becomes_a_constant(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Slice", ["shape", "zero", "one"], ["batch"]),
        helper.make_node("Concat", ["batch", "rest"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["y"]),
    ]
    path = saved(
        tmp_path / "net.onnx",
        nodes,
        {"x": ["batch", 3, "width"]},
        ["y"],
        zero=np.array([0]),
        one=np.array([1]),
        rest=np.array([-1]),
    )
    model = prepared(path, [ones(2, 3, 4)])
    assert [node.op_type for node in model.graph.node] == ["Reshape"]
    main = to_relax(path, [ones(2, 3, 4)])["main"]
    assert [int(extent) for extent in main.ret_ty.shape] == [2, 12]


def test_a_constant_condition_decides(tmp_path: Path) -> None:
    def branch(operator: str) -> Any:
        node = helper.make_node(operator, ["x"], [f"of_{operator}"])
        value = helper.make_tensor_value_info(f"of_{operator}", FLOAT, None)
        return helper.make_graph([node], operator, [], [value])

    node = helper.make_node("If", ["yes"], ["y"], then_branch=branch("Neg"), else_branch=branch("Exp"))
    path = saved(tmp_path / "net.onnx", [node], {"x": [3]}, ["y"], yes=np.array(True))
    assert [node.op_type for node in prepared(path, [ones(3)]).graph.node] == ["Neg"]


def test_a_given_value_becomes_a_constant(tmp_path: Path) -> None:
    nodes = [helper.make_node("Tile", ["x", "repeats"], ["y"])]
    path = saved(tmp_path / "net.onnx", nodes, {"x": [1, 2]}, ["y"])
    model = onnx.load(path)
    model.graph.input.append(helper.make_tensor_value_info("repeats", TensorProto.INT64, [2]))
    onnx.save(model, path)
    found = prepared(path, [ones(1, 2)], {"repeats": np.array([2, 3])})
    assert [value.name for value in found.graph.input] == ["x"]
    session = onnxruntime.InferenceSession(found.SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": ones(1, 2)})[0].shape == (2, 6)


@pytest.mark.parametrize("operator", ["Selu", "ThresholdedRelu"])
def test_operators_that_tvm_gets_wrong_are_replaced_by_their_definition(
    operator: str, tmp_path: Path
) -> None:
    path = saved(tmp_path / "net.onnx", [helper.make_node(operator, ["x"], ["y"])], {"x": [4]}, ["y"])
    x = np.array([-2.0, 0.5, 1.5, 3.0], np.float32)
    model = prepared(path, [x])
    assert operator not in {node.op_type for node in model.graph.node}
    original, simple = (
        onnxruntime.InferenceSession(one, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
        for one in (str(path), model.SerializeToString())
    )
    np.testing.assert_allclose(simple, original, rtol=1e-6)


def test_inputs_that_contradict_the_file_are_an_error(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", [helper.make_node("Neg", ["x"], ["y"])], {"x": ["n", 3]}, ["y"])
    assert prepared(path, [ones(7, 3)])
    with pytest.raises(
        BadOnnxError, match=r"input x has shape \['any', 3\] in the file, and inputs= gives \[7, 4\]"
    ):
        prepared(path, [ones(7, 4)])


def test_two_outputs_of_one_name_are_an_error(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", [helper.make_node("Neg", ["x"], ["y"])], {"x": [3]}, ["y", "y"])
    with pytest.raises(BadOnnxError, match="two outputs have the name y"):
        load(path)


def test_data_outside_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(12))
    path = saved(
        tmp_path / "inside" / "net.onnx",
        [helper.make_node("Add", ["x", "w"], ["y"])],
        {"x": [3]},
        ["y"],
        w=ones(3),
    )
    model = onnx.load(path)
    (weight,) = model.graph.initializer
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="../secret.bin")
    path.write_bytes(model.SerializeToString())
    with pytest.raises(BadOnnxError, match="not a readable ONNX model"):
        load(path)


def test_an_unknown_operator_is_named_with_its_node() -> None:
    node = helper.make_node("Frobnicate", ["x"], ["y"], "strange")
    value = helper.make_tensor_value_info("x", FLOAT, [3])
    model = helper.make_model(helper.make_graph([node], "graph", [value], []))
    with pytest.raises(OnnxConversionError, match=r"cannot be lowered: Frobnicate \(node strange\)"):
        imported(model, {"x": ones(3)}, 18)
