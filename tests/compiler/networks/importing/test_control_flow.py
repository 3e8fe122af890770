"""Conditions and loops of ONNX graphs that constants and shapes decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from foretune.compiler.networks import load_network, to_relax
from foretune.compiler.networks.importing.onnx_converters import OnnxConversionError
from foretune.compiler.networks.importing.onnx_graph import prepared
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy.dry_run import plain_network

pytestmark = pytest.mark.cpu

HEAD = '<ir_version: 9, opset_import: ["" : 18]>\n'

BY_SHAPE = """net (float[4] x) => (float[4] y) {
    shape = Shape(x)
    four = Constant<value_ints = [4]>()
    same = Equal(shape, four)
    y = If(same) <
        then_branch = yes () => (float[4] a) { a = Neg(x) },
        else_branch = no () => (float[4] b) { b = Abs(x) }>
}"""

BY_VALUE = BY_SHAPE.replace("Equal(shape, four)", "Greater(largest, zero)").replace(
    "shape = Shape(x)", "largest = ReduceMax<keepdims = 0>(x) zero = Constant<value_float = 0.0>()"
)

LOOP = """net (float[2] x) => (float[2] y, float[3, 2] rows)
<int64 count = {3}, bool going = {1}> {
    y, rows = Loop(count, going, x) <body = body (int64 step, bool on, float[2] before)
        => (bool again, float[2] after, float[2] row) {
            again = Identity(on)
            wide = Cast<to = 1>(step)
            after = Add(before, wide)
            row = Mul(after, before)
        }>
}"""

SCAN = """net (float[2] x, float[3, 2] rows) => (float[2] y, float[3, 2] sums) {
    y, sums = Scan(x, rows) <num_scan_inputs: int = 1, body = body (float[2] before, float[2] row)
        => (float[2] after, float[2] sum) {
            after = Add(before, row)
            sum = Identity(after)
        }>
}"""

X = np.array([1, -2], np.float32)


def saved(path: Path, text: str) -> Path:
    onnx.save(onnx.parser.parse_model(HEAD + text), path)
    return path


def outputs_of(path: Path, *inputs: Any) -> list[Any]:
    """Outputs of the converted file."""
    target = parse_target("llvm")
    network = load_network(str(path)).with_inputs(inputs)
    return list(plain_network(to_relax(network, target), target)(*inputs))


def test_a_shape_decides_a_condition(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", BY_SHAPE)
    x = np.array([1, -2, 3, 0], np.float32)
    assert [node.op_type for node in prepared(path, [x]).graph.node] == ["Neg"]
    assert outputs_of(path, x)[0].tolist() == [-1, 2, -3, 0]


def test_a_condition_on_values_is_refused_by_name(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", BY_VALUE)
    with pytest.raises(OnnxConversionError, match=r"If \(node y: its condition depends on values\)"):
        outputs_of(path, np.ones(4, np.float32))


def test_a_loop_becomes_its_steps(tmp_path: Path) -> None:
    last, rows = outputs_of(saved(tmp_path / "net.onnx", LOOP), X)
    assert last.tolist() == [4, 1]  # x + 0 + 1 + 2
    assert rows.tolist() == [[1, 4], [2, 2], [8, -1]]  # before * after of x, x + 0 and x + 1


def test_a_scan_becomes_its_steps(tmp_path: Path) -> None:
    rows = np.array([[1, 0], [2, 5], [-4, 1]], np.float32)
    last, sums = outputs_of(saved(tmp_path / "net.onnx", SCAN), X, rows)
    assert sums.tolist() == [[2, -2], [4, 3], [0, 4]]
    assert last.tolist() == sums[-1].tolist()
