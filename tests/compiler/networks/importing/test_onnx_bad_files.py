"""ONNX files that cannot be tuned: each ends with one error that names the input or the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from foretune.compiler.networks import load_network, to_relax
from foretune.compiler.networks.importing import onnx_graph
from foretune.compiler.networks.importing.onnx_converters import OnnxConversionError
from foretune.compiler.networks.importing.onnx_graph import BadOnnxError, prepared
from foretune.compiler.networks.inputs import BadInputShapeError
from foretune.compiler.tvm_compat import parse_target
from onnx import TensorProto, helper

FLOAT = TensorProto.FLOAT


def saved(path: Path, inputs: list[Any], opset: int = 17, kind: int = FLOAT) -> Path:
    """File of a graph that adds a constant to its first input."""
    weight = np.arange(1, 4).astype(helper.tensor_dtype_to_np_dtype(kind))
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"], "node")],
        "graph",
        inputs,
        [helper.make_empty_tensor_value_info("y")],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def tensor(kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info("x", kind, [3])


def test_inputs_that_are_no_tensors_of_numbers_are_refused(tmp_path: Path) -> None:
    sequence = helper.make_tensor_sequence_value_info("x", FLOAT, [3])
    for value, kind in (
        (sequence, "sequence"),
        (tensor(TensorProto.STRING), "strings"),
        (tensor(TensorProto.COMPLEX64), "complex numbers"),
    ):
        with pytest.raises(BadOnnxError, match=f"input x is of {kind}, .*outside of the network"):
            load_network(str(saved(tmp_path / "net.onnx", [value])))


def test_an_output_that_is_no_tensor_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", [tensor()])
    model = onnx.load(path)
    model.graph.output[0].CopyFrom(helper.make_tensor_sequence_value_info("y", FLOAT, [3]))
    onnx.save(model, path)
    with pytest.raises(BadOnnxError, match="output y is of sequence"):
        load_network(str(path))


@pytest.mark.parametrize("kind", ["INT4", "FLOAT8E5M2"])
def test_numbers_of_few_bits_are_refused_by_name(kind: str, tmp_path: Path) -> None:
    small = getattr(TensorProto, kind)
    nodes = [
        helper.make_node("Cast", ["x"], ["few"], "narrow", to=small),
        helper.make_node("Cast", ["few"], ["y"], "wide", to=FLOAT),
    ]
    graph = helper.make_graph(nodes, "graph", [tensor()], [helper.make_empty_tensor_value_info("y")])
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    with pytest.raises(OnnxConversionError, match=rf"Cast \(node narrow\).* of type {kind.lower()}"):
        to_relax(load_network(str(path)), parse_target("llvm"))
    with pytest.raises(BadInputShapeError, match="float8_e5m2 cannot be an input"):
        load_network(str(path), inputs=[{"shape": [3], "dtype": "float8_e5m2"}])


def test_missing_external_data_is_an_error(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", [tensor()])
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)
    assert load_network(str(path)).reference_outputs()[0].shape == (3,)
    (tmp_path / "weights").unlink()
    with pytest.raises(BadOnnxError, match="not a readable ONNX model"):
        load_network(str(path))


def test_a_file_that_is_no_model_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"<html>not found</html>")
    with pytest.raises(BadOnnxError, match="export it again"):
        load_network(str(path))


def test_old_opsets_and_half_precision_weights_work(tmp_path: Path) -> None:
    for opset, kind in ((7, FLOAT), (17, TensorProto.FLOAT16)):
        path = saved(tmp_path / "net.onnx", [tensor(kind)], opset, kind)
        network = load_network(str(path))
        assert "Add" in [node.op_type for node in prepared(path, network.inputs).graph.node]
        (found,), (x,) = network.reference_outputs(), network.inputs
        np.testing.assert_array_equal(found, x + np.arange(1, 4).astype(x.dtype))


def test_a_model_of_more_than_2_gb_is_not_folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Protobuf holds 2 GB at most, so that ONNX Runtime cannot take the model from memory."""
    monkeypatch.setattr(onnx_graph, "LARGEST_BYTES", 10)
    monkeypatch.setattr("onnxruntime.InferenceSession", None)
    path = saved(tmp_path / "net.onnx", [tensor()])
    assert [node.op_type for node in prepared(path, [np.ones(3, np.float32)]).graph.node] == ["Add"]
