"""Recurrent layers over a symbolic number of steps, from PyTorch and from ONNX files, to their libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import foretune
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from foretune.compiler.networks import load_network
from foretune.compiler.networks.importing.onnx_torch.graph_module import SymbolicOnnxError
from foretune.compiler.networks.importing.recurrent.layers import RecurrentFormError
from foretune.inference.dynamic.result import DynamicResult
from foretune.inference.run.config import TuneConfig
from foretune.inference.search.config import OneShotConfig
from foretune.inference.tune import run
from onnx import TensorProto, helper
from rich.console import Console
from tvm.support.cc import get_cc

pytestmark = pytest.mark.skipif(get_cc() is None, reason="no C++ compiler")

HIDDEN, FEATURES = 5, 4
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def config(folder: Path, network: str, **changed: Any) -> TuneConfig:
    return TuneConfig(
        network=network,
        output=folder / "report",
        database=folder / "database",
        export=folder / "net.so",
        search=OneShotConfig(measure=False, rounds=1, extra_rounds=0),
        **changed,
    )


def test_a_text_line_recogniser_with_layers_in_both_directions(tmp_path: Path) -> None:
    network = "support.recurrent_networks:TextLine"
    inputs = [["b=1:3", 1, 8, "w=4:45"]]
    result = run(config(tmp_path, network, inputs=inputs), Console(quiet=True))
    assert isinstance(result, DynamicResult) and not result.plain
    assert [task["kind"] for task in result.tasks].count("recurrent") == 2
    library = foretune.load(tmp_path / "net.so")
    module = load_network(network, inputs=[[2, 1, 8, 16]]).module
    assert module is not None
    for b, w in ((1, 4), (2, 5), (3, 7), (1, 8), (2, 13), (3, 31), (1, 45), (3, 45)):
        x = torch.randn(b, 1, 8, w)
        with torch.inference_mode():
            expected = module(x)
        torch.testing.assert_close(library(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("network", "kwargs", "shape"),
    [
        ("Cells", {"kind": "LSTMCell", "hidden": 6}, ["b=1:19", 5, 4]),
        ("Cells", {"kind": "LSTMCell", "hidden": 32}, ["b=1:19", 5, 4]),
        ("Cells", {"kind": "GRUCell", "hidden": 6}, ["b=1:19", 5, 4]),
        ("Projected", {}, [5, "b=1:19", 4]),
    ],
    ids=["lstm-cell", "wide-lstm-cell", "gru-cell", "projected-lstm"],
)
def test_a_fixed_number_of_steps_runs_any_batch(
    network: str, kwargs: dict[str, Any], shape: list[Any], tmp_path: Path
) -> None:
    path = f"support.recurrent_networks:{network}"
    settings = config(tmp_path, path, inputs=[shape], kwargs=kwargs or None)
    result = run(settings, Console(quiet=True))
    assert isinstance(result, DynamicResult) and not result.plain
    assert {one.sizes["b"] for one in result.sizes} >= {1, 2, 19}


def saved(path: Path, operator: str, further: tuple[str, ...] = (), **options: Any) -> Path:
    """File of one layer with a symbolic number of steps; `further` are names of its inputs from 4 on."""
    rng = np.random.default_rng(0)
    directions = 2 if options.get("direction") == "bidirectional" else 1
    gates = GATES[operator] * HIDDEN
    shapes = {
        "w": (directions, gates, FEATURES),
        "r": (directions, gates, HIDDEN),
        "b": (directions, 2 * gates),
        "p": (directions, 3 * HIDDEN),
    }
    weights = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    outputs = ["y", "h", "c"][: 3 if operator == "LSTM" else 2]
    declared = {
        "x": (TensorProto.FLOAT, ["steps", "batch", FEATURES]),
        "lengths": (TensorProto.INT32, ["batch"]),
        "h0": (TensorProto.FLOAT, [directions, "batch", HIDDEN]),
    }
    node = helper.make_node(
        operator, ["x", "w", "r", "b", *further], outputs, "the_layer", hidden_size=HIDDEN, **options
    )
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info(n, *spec) for n, spec in declared.items() if n in ("x", *further)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [onnx.numpy_helper.from_array(weight, name) for name, weight in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize(
    ("operator", "options"),
    [
        ("LSTM", {"direction": "bidirectional"}),
        ("GRU", {"direction": "reverse", "linear_before_reset": 1}),
        ("GRU", {}),
        ("RNN", {"direction": "bidirectional", "activations": ["Relu", "Tanh"], "clip": 0.9}),
    ],
    ids=["lstm", "gru-late", "gru-early", "rnn-two-activations"],
)
def test_the_library_of_a_file_computes_what_onnx_runtime_does(
    operator: str, options: dict[str, Any], tmp_path: Path
) -> None:
    path = saved(tmp_path / "net.onnx", operator, ("", "h0"), **options)
    run(config(tmp_path, str(path), dims={"steps": "1:19", "batch": "1:4"}), Console(quiet=True))
    library = foretune.load(tmp_path / "net.so")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(1)
    directions = 2 if options.get("direction") == "bidirectional" else 1
    for steps, batch in ((1, 1), (2, 3), (7, 2), (13, 4), (19, 1)):
        x = rng.standard_normal((steps, batch, FEATURES)).astype(np.float32)
        h0 = rng.standard_normal((directions, batch, HIDDEN)).astype(np.float32)
        expected = session.run(None, {"x": x, "h0": h0})
        for found, wanted in zip(library(x, h0), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("operator", "further", "options", "message"),
    [
        ("LSTM", ("lengths",), {}, r"LSTM \(node the_layer\).*sequence lengths \(input 4\)"),
        ("LSTM", ("", "", "", "p"), {}, r"LSTM \(node the_layer\).*peepholes \(input 7\)"),
        ("RNN", (), {"activations": ["Affine"]}, r"RNN \(node the_layer\).*no activation Affine"),
    ],
)
def test_other_forms_of_a_file_are_refused_by_name(
    operator: str, further: tuple[str, ...], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = saved(tmp_path / "net.onnx", operator, further, **options)
    with pytest.raises(SymbolicOnnxError, match=message):
        run(config(tmp_path, str(path), dims={"steps": "1:9", "batch": "1:2"}), Console(quiet=True))


def test_a_projection_is_refused_by_name(tmp_path: Path) -> None:
    settings = config(tmp_path, "support.recurrent_networks:Projected", inputs=[["n=1:9", 1, 4]])
    with pytest.raises(RecurrentFormError, match="lstm over a symbolic length: it projects its state"):
        run(settings, Console(quiet=True))
