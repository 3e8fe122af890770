"""ONNX operators as simpler ones: the values of many small graphs, by ONNX Runtime and by the product."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from foretune.compiler.networks import load_network, to_relax
from foretune.compiler.networks.importing.onnx_converters import OnnxConversionError
from foretune.compiler.networks.importing.onnx_graph import prepared
from foretune.compiler.networks.importing.onnx_import import to_relax as imported
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy.dry_run import plain_network
from onnx import TensorProto, helper

FLOAT = TensorProto.FLOAT

X = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4) - 11.5
LINE = np.array([-2.0, -0.5, 0.0, 0.25, 3.0], np.float32)


def saved(
    path: Path, operator: str, arrays: list[Any], outputs: int = 1, opset: int = 20, **attributes: Any
) -> Path:
    """File of one node: the first array is an input, and the others are constants."""
    names = [f"x{place}" if array is not None else "" for place, array in enumerate(arrays)]
    node = helper.make_node(operator, names, [f"y{place}" for place in range(outputs)], "node", **attributes)
    kind = helper.np_dtype_to_tensor_dtype(arrays[0].dtype)
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x0", kind, arrays[0].shape)],
        [helper.make_empty_tensor_value_info(name) for name in node.output],
        [
            onnx.numpy_helper.from_array(np.asarray(array), name)
            for array, name in zip(arrays[1:], names[1:], strict=True)
            if array is not None
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), path)
    return path


def simplified(path: Path, x: Any) -> list[Any]:
    """Outputs of the prepared model by ONNX Runtime."""
    model = prepared(path, [x])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x0": x})


IMAGE = np.array([[[[1, 5, 2], [3, 4, 0], [7, 6, 8]]]], np.float32)
CASES: list[tuple[str, list[Any], dict[str, Any], Any]] = [
    ("Max", [LINE, np.float32(0), np.float32(1)], {}, [1, 1, 1, 1, 3]),
    ("Sum", [LINE, LINE, LINE], {}, 3 * LINE),
    ("Mean", [LINE, np.zeros(5, np.float32)], {}, LINE / 2),
    ("IsInf", [np.array([-np.inf, 1, np.inf], np.float32)], {"detect_negative": 0}, [False, False, True]),
    ("Elu", [np.array([-1, 0, 200], np.float32)], {"alpha": 2.0}, [2 * np.expm1(-1), 0, 200]),
    ("ThresholdedRelu", [np.array([-np.inf, 1, 2], np.float32)], {}, [0, 0, 2]),
    ("Mish", [np.array([0, 200], np.float32)], {}, [0, 200]),
    ("LpNormalization", [np.array([[3, 4], [0, 0]], np.float32)], {}, [[0.6, 0.8], [0, 0]]),
    ("SpaceToDepth", [np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)], {"blocksize": 2}, "channels"),
    ("Pad", [LINE, np.array([2, -1]), None, np.array([0])], {"mode": "wrap"}, [0.25, 3, *LINE[:4]]),
    ("Slice", [LINE, np.array([4]), np.array([-99]), np.array([0]), np.array([-2])], {}, [3, 0, -2]),
    ("Compress", [LINE, np.array([True, False, True])], {"axis": 0}, [-2, 0]),
    ("Trilu", [np.ones((2, 2), np.float32), np.int64(1)], {}, [[0, 1], [0, 0]]),
    ("ArgMax", [np.array([1, 3, 3, 0], np.float32)], {"select_last_index": 1}, [2]),
    ("ReverseSequence", [np.arange(6.0, dtype=np.float32).reshape(3, 2), np.array([2, 3])], {}, "turned"),
    ("AveragePool", [IMAGE], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}, [3.25, 1, 6.5, 8]),
    ("LpPool", [IMAGE], {"kernel_shape": [1, 3], "p": 1}, [8, 7, 21]),
    ("MatMul", [LINE, LINE], {}, LINE @ LINE),
    (
        "ReduceMax",
        [np.array([[-np.inf, -np.inf], [-np.inf, 2]], np.float32), np.array([1])],
        {},
        [-np.inf, 2],
    ),
    ("ReduceMin", [np.array([[np.inf, np.inf], [-3, 2]], np.float32), np.array([1])], {}, [np.inf, -3]),
    ("ReduceMax", [np.array([[False, False], [True, False]]), np.array([1])], {"opset": 20}, [False, True]),
    (
        "BitShift",
        [np.array([1, 6, 255], np.uint8), np.array([3, 1, 8], np.uint8)],
        {"direction": "RIGHT"},
        [0, 3, 0],
    ),
    (
        "PRelu",
        [np.array([[[-1, 2], [-3, 4]]], np.float32), np.array([[2], [5]], np.float32)],
        {},
        [-2, 2, -15, 4],
    ),
    ("Pow", [np.array([3, -2, 2**20]), np.array([4, 3, 2])], {}, [81, -8, 2**40]),
    ("Einsum", [np.arange(4.0, dtype=np.float32).reshape(2, 2)], {"equation": "ii->i"}, [0, 3]),
]
_BY_HAND = {"channels": [0, 1, 2, 3], "turned": [2, 5, 0, 3, 4, 1]}


@pytest.mark.parametrize(("operator", "arrays", "attributes", "expected"), CASES)
def test_values_of_rewritten_operators(
    operator: str, arrays: list[Any], attributes: dict[str, Any], expected: Any, tmp_path: Path
) -> None:
    path = saved(tmp_path / "net.onnx", operator, arrays, **attributes)
    (found,) = simplified(path, arrays[0])
    wanted = _BY_HAND[expected] if isinstance(expected, str) else expected
    np.testing.assert_allclose(np.ravel(found), np.ravel(wanted), rtol=1e-5)


@pytest.mark.parametrize(
    ("operator", "arrays", "attributes"),
    [
        (
            "ConvTranspose",
            [X, np.ones((2, 3, 3, 2), np.float32)],
            {"strides": [2, 3], "output_shape": [7, 10]},
        ),
        (
            "ConvTranspose",
            [X, np.arange(16, dtype=np.float32).reshape(2, 2, 2, 2)],
            {"group": 2, "dilations": [2, 1], "auto_pad": "SAME_UPPER", "strides": [2, 2]},
        ),
        ("Conv", [X, np.ones((1, 2, 2, 2), np.float32)], {"auto_pad": "SAME_LOWER"}),
        ("MaxPool", [X], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
        ("Resize", [X, None, np.array([1, 1, 0.6, 1.7], np.float32)], {"mode": "cubic"}),
        ("Resize", [X, None, None, np.array([1, 2, 2, 7])], {"mode": "linear", "antialias": 1}),
        ("LRN", [X], {"size": 3}),
        ("Attention", [X, X, X], {"softcap": 2.0, "is_causal": 1, "opset": 23}),
        ("DFT", [X.reshape(2, 12, 1), None, np.int64(1)], {"onesided": 1}),
    ],
)
def test_rewritten_operators_agree_with_onnx_runtime(
    operator: str, arrays: list[Any], attributes: dict[str, Any], tmp_path: Path
) -> None:
    path = saved(tmp_path / "net.onnx", operator, arrays, **attributes)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x0": arrays[0]})
    model = prepared(path, [arrays[0]])
    if operator not in ("Conv", "MaxPool"):
        assert operator not in {node.op_type for node in model.graph.node}
    np.testing.assert_allclose(simplified(path, arrays[0])[0], expected, rtol=1e-4, atol=1e-4)


def test_positions_of_maxima_are_those_in_the_whole_input(tmp_path: Path) -> None:
    x = np.concatenate([IMAGE, IMAGE[..., ::-1]], axis=1)
    path = saved(tmp_path / "net.onnx", "MaxPool", [x], outputs=2, kernel_shape=[2, 2])
    maxima, positions = simplified(path, x)
    assert maxima.ravel().tolist() == [5, 5, 7, 8, 5, 5, 8, 7]
    assert positions.ravel().tolist() == [1, 1, 6, 8, 10, 10, 15, 17]
    np.testing.assert_array_equal(x.ravel()[positions], maxima)


def test_batch_norm_in_training_mode_uses_and_updates_the_statistics(tmp_path: Path) -> None:
    x = np.array([[[1.0, 3.0]], [[5.0, 7.0]]], np.float32)
    one, two = np.ones(1, np.float32), np.full(1, 2, np.float32)
    options = {"training_mode": 1, "momentum": 0.5, "epsilon": 0.0}
    path = saved(tmp_path / "net.onnx", "BatchNormalization", [x, two, one, one, one], outputs=3, **options)
    y, mean, variance = simplified(path, x)  # of the batch: mean 4, variance 5
    np.testing.assert_allclose(y.ravel(), 2 * (x.ravel() - 4) / np.sqrt(5) + 1, rtol=1e-5)
    assert (mean[0], variance[0]) == (pytest.approx(2.5), pytest.approx(3.0))


def test_layer_norm_with_three_outputs(tmp_path: Path) -> None:
    x = np.array([[1.0, 3.0], [2.0, 6.0]], np.float32)
    path = saved(tmp_path / "net.onnx", "LayerNormalization", [x, np.ones(2, np.float32)], outputs=3)
    _, mean, inverse = simplified(path, x)
    np.testing.assert_allclose(mean, [[2], [4]])
    np.testing.assert_allclose(inverse, [[1], [0.5]], rtol=1e-4)


@pytest.mark.parametrize(
    ("operator", "arrays", "reason"),
    [
        ("NonZero", [LINE], "the shape of its output depends on values"),
        ("Unique", [LINE], "the shape of its output depends on values"),
        ("Det", [np.eye(2, dtype=np.float32)], "Det"),
    ],
)
def test_operators_without_a_fixed_result_are_refused_by_name(
    operator: str, arrays: list[Any], reason: str, tmp_path: Path
) -> None:
    path = saved(tmp_path / "net.onnx", operator, arrays)
    with pytest.raises(
        OnnxConversionError, match=rf"cannot be lowered: {operator} \(node .*{reason}|{reason}"
    ):
        imported(path, [arrays[0]])


def test_a_size_that_is_an_input_has_to_be_given(tmp_path: Path) -> None:
    node = helper.make_node("Tile", ["x", "repeats"], ["y"], "node")
    inputs = [
        helper.make_tensor_value_info("x", FLOAT, [2]),
        helper.make_tensor_value_info("repeats", TensorProto.INT64, [1]),
    ]
    graph = helper.make_graph([node], "graph", inputs, [helper.make_empty_tensor_value_info("y")])
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    with pytest.raises(
        OnnxConversionError, match=r"Tile .*operand repeats .* is not constant; give the input"
    ):
        imported(path, [np.zeros(2, np.float32), np.ones(1, np.int64)])
    network = load_network(str(path), inputs=[[2], {"value": [3]}])
    (found,) = plain_network(to_relax(network, parse_target("llvm")), parse_target("llvm"))(*network.inputs)
    np.testing.assert_array_equal(found, np.tile(network.inputs[0], 3))


def test_integers_are_convolved_exactly_after_their_zeros_are_subtracted(tmp_path: Path) -> None:
    """3 less the zero 1 times the weight 100 is 200; float32 has no part in it."""
    x = np.full((1, 1, 2, 2), 3, np.uint8)
    arrays = [x, np.full((1, 1, 1, 1), 100, np.uint8), np.uint8(1)]
    network = load_network(
        str(saved(tmp_path / "net.onnx", "ConvInteger", arrays)), inputs=[{"value": x.tolist()}]
    )
    assert network.inputs == ()
    path = saved(tmp_path / "other.onnx", "ConvInteger", arrays)
    network = load_network(str(path), inputs=[{"shape": [1, 1, 2, 2], "dtype": "uint8", "high": 4}])
    target = parse_target("llvm")
    (found,) = plain_network(to_relax(network, target), target)(*network.inputs)
    wanted = (network.inputs[0].astype(np.int32) - 1) * 100
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, wanted)


def test_not_a_number_is_found_in_computed_values(tmp_path: Path) -> None:
    """TVM folds `x != x` to False."""
    nodes = [helper.make_node("Sqrt", ["x"], ["root"]), helper.make_node("IsNaN", ["root"], ["y"])]
    value = helper.make_tensor_value_info("x", FLOAT, [5])
    graph = helper.make_graph(nodes, "graph", [value], [helper.make_empty_tensor_value_info("y")])
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    network, target = load_network(str(path)), parse_target("llvm")
    (found,) = plain_network(to_relax(network, target), target)(LINE)
    assert found.tolist() == [True, True, False, False, False]
