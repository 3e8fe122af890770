"""Recurrent layers of ONNX in simpler operators: ONNX Runtime's own layers are the reference."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from foretune.compiler.networks.importing.onnx_graph import simplified
from foretune.compiler.networks.importing.onnx_recurrent import CELLS, RecurrentLayerError, expand
from onnx import TensorProto, helper

STEPS, BATCH, FEATURES, HIDDEN = 3, 2, 4, 5
OUTPUTS = {"LSTM": ["y", "h", "c"], "GRU": ["y", "h"], "RNN": ["y", "h"]}


def layer(
    operator: str, *, bias: bool = True, states: bool = False, **options: Any
) -> tuple[Any, dict[str, Any]]:
    """Model of one layer with random weights, and random inputs."""
    rng = np.random.default_rng(0)
    directions = 2 if options.get("direction") == "bidirectional" else 1
    gates = CELLS[operator].gates * HIDDEN

    def drawn(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    weights = {
        "w": drawn(directions, gates, FEATURES),
        "r": drawn(directions, gates, HIDDEN),
        "b": drawn(directions, 2 * gates),
    }
    feeds = {"x": drawn(STEPS, BATCH, FEATURES)}
    inputs = ["x", "w", "r", "b" if bias else "", ""]
    if states:
        names = ["h0", "c0"][: CELLS[operator].states]
        feeds |= {name: drawn(directions, BATCH, HIDDEN) for name in names}
        inputs += names
    node = helper.make_node(operator, inputs, OUTPUTS[operator], "layer", hidden_size=HIDDEN, **options)
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in feeds.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in OUTPUTS[operator]],
        [onnx.numpy_helper.from_array(weight, name) for name, weight in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), feeds


def run(model: Any, feeds: dict[str, Any]) -> list[Any]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


@pytest.mark.parametrize("operator", CELLS)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("bias", "states"), [*product([False, True], repeat=2)])
def test_all_directions(operator: str, direction: str, bias: bool, states: bool) -> None:
    model, feeds = layer(operator, direction=direction, bias=bias, states=states)
    found = simplified(model)
    assert not {node.op_type for node in found.graph.node} & set(CELLS)
    for wanted, got in zip(run(model, feeds), run(found, feeds), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("operator", "options"),
    [
        ("GRU", {"linear_before_reset": 1}),
        ("LSTM", {"clip": 0.3}),
        ("RNN", {"activations": ["LeakyRelu"], "activation_alpha": [0.2]}),
        ("LSTM", {"activations": ["HardSigmoid", "Relu", "Tanh"]}),
    ],
)
def test_options(operator: str, options: dict[str, Any]) -> None:
    model, feeds = layer(operator, states=True, **options)
    for wanted, got in zip(run(model, feeds), run(simplified(model), feeds), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_batches_first() -> None:
    """ONNX Runtime has no `layout=1`; the same layer with its axes exchanged is the reference."""
    model, feeds = layer("GRU", states=True)
    node = model.graph.node[0]
    other = onnx.NodeProto()
    other.CopyFrom(node)
    other.attribute.append(helper.make_attribute("layout", 1))
    graph = expand(other, (BATCH, STEPS, FEATURES), np.dtype(np.float32), helper)
    turned = {name: x.swapaxes(0, 1).copy() for name, x in feeds.items()}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in turned.items()]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "h")]
    weights = [*model.graph.initializer, *graph.constants]
    batched = helper.make_model(
        helper.make_graph(graph.nodes, "graph", inputs, outputs, weights),
        opset_imports=[helper.make_opsetid("", 14)],
        ir_version=8,
    )
    y, h = run(model, feeds)
    found = run(batched, turned)
    np.testing.assert_allclose(found[0], y.transpose(2, 0, 1, 3), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], h.swapaxes(0, 1), rtol=1e-4, atol=1e-5)


def test_one_product_serves_all_steps() -> None:
    model, _ = layer("RNN", states=True)
    products = [node for node in simplified(model).graph.node if node.op_type == "MatMul"]
    assert len(products) == 1 + STEPS


@pytest.mark.parametrize(
    ("position", "feature"), [(4, "sequence lengths"), (7, "peepholes")], ids=["lengths", "peepholes"]
)
def test_other_features_are_refused_by_name(position: int, feature: str) -> None:
    model, _ = layer("LSTM", states=True)
    node = model.graph.node[0]
    inputs = [*node.input, "", ""][:8]
    inputs[position] = "more"
    del node.input[:]
    node.input.extend(inputs)
    with pytest.raises(RecurrentLayerError, match=rf"ONNX node layer \(LSTM\): {feature}"):
        expand(node, (STEPS, BATCH, FEATURES), np.dtype(np.float32), helper)
