"""Quantised networks: made from modules and ONNX files, taken as they are, refused; tasks and outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foretune.compiler.networks import Lowering, Network, extract_tasks, load_network, to_relax
from foretune.compiler.networks.importing.onnx_import import runtime_outputs
from foretune.compiler.networks.low_precision import quantisation
from foretune.compiler.networks.low_precision.integer_products import FLOAT_PRODUCTS
from foretune.compiler.networks.low_precision.quantisation import QuantisationError, is_quantised, quantised
from foretune.compiler.networks.lowering.lowering import LoweringError
from foretune.compiler.targets import MissingInstructionError
from foretune.compiler.templates.cpu.contraction import read_contraction
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy.compile import compile_network

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

SERVER = parse_target({"kind": "llvm", "mcpu": "sapphirerapids", "num-cores": 2})
INT8 = Lowering(dtype="int8")
NETWORKS: dict[str, tuple[list[list[int]], int, int]] = {
    "support.networks:Residual": ([[1, 8, 6, 6]], 3, 0),
    "support.networks:TransformerBlock": ([[1, 8, 32]], 6, 2),
}
"""Inputs, products with a weight, and products of two activations."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Network]:
    folder = tmp_path_factory.mktemp("quantised")
    return {
        name: quantised(load_network(name, inputs=inputs), None, folder / f"{number}.onnx")
        for number, (name, (inputs, *_)) in enumerate(NETWORKS.items())
    }


@pytest.mark.parametrize("name", NETWORKS)
def test_a_quantised_network_computes_what_onnx_runtime_does(name: str, files: dict[str, Network]) -> None:
    network, (_, products, of_activations) = files[name], NETWORKS[name]
    assert network.quantised_path is not None and network.quantised_s > 0
    mod = to_relax(network, SERVER, INT8)
    tasks = extract_tasks(mod, SERVER, network.name)
    contractions = [(task.weight, read_contraction(task.mod)) for task in tasks]
    in_integers = sum(
        weight for weight, task in contractions if task and task.types == ("uint8", "int8", "int32")
    )
    assert in_integers == products and mod.attrs[FLOAT_PRODUCTS] == of_activations
    # Code for any CPU, as the functions are not scheduled.
    outputs = compile_network(mod, parse_target("llvm"))(*network.inputs)
    theirs = runtime_outputs(network.quantised_path, network.inputs)
    assert theirs is not None
    for reference, ours, other in zip(network.reference_outputs(), outputs, theirs, strict=True):
        scale = np.abs(reference).max()
        np.testing.assert_allclose(ours, other, atol=0.02 * scale)
        assert 0 < np.abs(ours - reference).max() < 0.1 * scale


def test_a_network_is_quantised_where_nothing_has_done_it_before() -> None:
    network = load_network("support.networks:Residual", inputs=[[1, 8, 6, 6]])
    tasks = extract_tasks(to_relax(network, SERVER, INT8), SERVER, network.name)
    assert {task.settings["dtype"] for task in tasks if task.operator == "conv2d"} == {"uint8"}


def test_a_quantised_file_is_taken_as_it_is(tmp_path: Path, files: dict[str, Network]) -> None:
    path = files["support.networks:Residual"].quantised_path
    given = load_network(str(path))
    assert is_quantised(given) and not is_quantised(files["support.networks:Residual"])
    taken = quantised(given, None, tmp_path / "unused.onnx")
    assert (taken.quantised_path, taken.quantised_s) == (path, 0.0)
    assert not (tmp_path / "unused.onnx").exists()
    with pytest.raises(QuantisationError, match=r"lowering\.calibration=c\.npz: .* is quantised already"):
        quantised(given, "c.npz", tmp_path / "unused.onnx")


def test_calibration_inputs_decide_the_scales(tmp_path: Path) -> None:
    network = load_network("support.networks:Dense", inputs=[[4, 256]])
    np.savez(tmp_path / "wide.npz", 100 * np.ones((8, 256), np.float32))
    scales = []
    for calibration in (None, tmp_path / "wide.npz"):
        model = onnx.load(quantised(network, calibration, tmp_path / "q.onnx").quantised_path)
        values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        first = next(node for node in model.graph.node if node.op_type == "QuantizeLinear")
        scales.append(float(values[first.input[1]]))
    assert scales[1] == pytest.approx(100 / 255)
    assert scales[0] < scales[1]


def test_a_float_onnx_file_is_quantised(tmp_path: Path) -> None:
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
        "net",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4, 8])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4, 16])],
        [onnx.numpy_helper.from_array(np.ones((8, 16), np.float32), "w")],
    )
    path = _saved(graph, tmp_path)
    network = quantised(load_network(str(path)), None, tmp_path / "q.onnx")
    assert network.onnx_path == path and network.quantised_path == tmp_path / "q.onnx"
    assert is_quantised(load_network(str(tmp_path / "q.onnx")))


def test_a_file_with_quantised_operators_is_refused_by_their_names(tmp_path: Path) -> None:
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("ConvInteger", ["x", "w"], ["y"])],
        "net",
        [value("x", onnx.TensorProto.UINT8, [1, 4, 4, 4])],
        [value("y", onnx.TensorProto.INT32, [1, 4, 4, 4])],
        [onnx.numpy_helper.from_array(np.ones((4, 4, 1, 1), np.int8), "w")],
    )
    network = load_network(str(_saved(graph, tmp_path)), inputs=[{"shape": [1, 4, 4, 4], "dtype": "uint8"}])
    assert not is_quantised(network)  # so that other data types do not refuse it
    with pytest.raises(QuantisationError, match=r"ConvInteger cannot be lowered in int8; .* QDQ form"):
        to_relax(network, SERVER, INT8)


def test_a_target_without_integer_products_is_one_clear_error() -> None:
    network = load_network("support.networks:Residual", inputs=[[1, 8, 6, 6]])
    target = parse_target({"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 1})
    with pytest.raises(MissingInstructionError, match=r"target=x86-64-v2.*uint8 x int8 -> int32.* or avx2,"):
        to_relax(network, target, INT8)


def test_calibration_without_int8_is_refused() -> None:
    with pytest.raises(LoweringError, match=r"calibration=c\.npz: lowering\.dtype=float32 needs none"):
        Lowering(calibration="c.npz")


def _saved(graph: Any, folder: Path) -> Path:
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "network.onnx")
    return folder / "network.onnx"


def test_a_file_that_quantisation_does_not_finish_is_not_left(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "q.onnx"
    path.write_text("the earlier one")

    def interrupted(network, runs, scratch, partial):
        partial.write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(quantisation, "_quantise", interrupted)
    with pytest.raises(KeyboardInterrupt):
        quantised(load_network("support.networks:Residual", inputs=[[1, 8, 6, 6]]), None, path)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("q.onnx", "the earlier one")]
