"""Inputs of ONNX files with the symbols that the file names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import onnx
import pytest
from foretune.compiler.dynamic.symbols import DynamicShapeError, Extent, Symbol
from foretune.compiler.networks.dynamic.dynamic_inputs import dynamic_inputs
from onnx import TensorProto, helper


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved(tmp_path_factory.mktemp("onnx") / "net.onnx", ["batch", "sequence"], ["batch", 8])


def saved(path: Path, ids: list[Any], mask: list[Any]) -> str:
    inputs = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, ids),
        helper.make_tensor_value_info("mask", TensorProto.FLOAT, mask),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT64, None)]
    graph = helper.make_graph([helper.make_node("Neg", ["ids"], ["y"])], "graph", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    return str(path)


def test_symbols_of_the_file_get_ranges(file: str) -> None:
    found = dynamic_inputs(file, None, 1, {"batch": "1:4", "sequence": "1:64"})
    assert found.symbols == {"batch": Symbol("batch", 1, 4), "sequence": Symbol("sequence", 1, 64)}
    assert found.shapes == ((Extent("batch"), Extent("sequence")), (Extent("batch"), 8))
    assert [one["dtype"] for one in found.settings] == ["int64", "float32"]


def test_a_symbol_of_the_file_may_have_a_number(file: str) -> None:
    found = dynamic_inputs(file, None, 1, {"batch": 2, "sequence": "1:64"})
    assert found.shapes == ((2, Extent("sequence")), (2, 8)) and list(found.symbols) == ["sequence"]


def test_batch_is_the_leading_extent(file: str) -> None:
    assert dynamic_inputs(file, None, "1:4", {"sequence": 3}).shapes == (
        (Extent("batch"), 3),
        (Extent("batch"), 8),
    )
    assert dynamic_inputs(file, None, 4, {"sequence": "1:9"}).shapes == ((4, Extent("sequence")), (4, 8))


def test_own_symbols_keep_the_types_of_the_file(file: str) -> None:
    found = dynamic_inputs(file, [{"shape": [1, "n=1:9"], "high": 50}, {"value": 0.5}], 1, None)
    assert found.at({"n": 3})[0] == {"shape": [1, 3], "dtype": "int64", "high": 50}
    assert found.shapes == ((1, Extent("n")), None)
    assert found.without_values().shapes == ((1, Extent("n")),)


@pytest.mark.parametrize(
    ("inputs", "dims", "message"),
    [
        (None, {"batch": "1:4"}, "sequence has no range; give dims.sequence=1:512"),
        (None, {"batch": 1, "sequence": "1:4", "seq": "1:4"}, "has no extent of this name"),
        ([[1, "n=1:9"]], None, "inputs= has 1 specification, and the file takes 2 inputs: ids, mask"),
        ([[1, "n=1:9"], [1, "n"]], None, "input mask has shape ['any', 8] in the file, and inputs= gives"),
    ],
)
def test_wrong_shapes_are_errors(file: str, inputs: Any, dims: Any, message: str) -> None:
    with pytest.raises(DynamicShapeError) as error:
        dynamic_inputs(file, inputs, 1, dims)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(("extent", "shown"), [(None, "no name"), ("a + b", "the name 'a + b'")])
def test_an_extent_without_a_usable_name_needs_inputs(extent: Any, shown: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "net.onnx", [1, extent], [1, 8])
    with pytest.raises(DynamicShapeError, match=re.escape(f"dimension 1 of input ids has {shown} in")):
        dynamic_inputs(path, None, 1, {"n": "1:4"})
