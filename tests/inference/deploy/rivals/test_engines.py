"""Engines on a small network, in this process as in one of their own."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foretune.compiler.networks import load_network, to_relax
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.deploy.compile import compile_network
from foretune.inference.deploy.outputs import compare_narrow_outputs, compare_outputs
from foretune.inference.deploy.rivals import inductor, onnx_export
from foretune.inference.deploy.rivals.base import CPU, CUDA, Form
from foretune.inference.deploy.rivals.inductor import Inductor, InductorMaxAutotune
from foretune.inference.deploy.rivals.process import (
    EngineProcess,
    ExportProcess,
    load_arrays,
    peak_mb,
    save_arrays,
)
from foretune.inference.deploy.rivals.registry import (
    DEFAULT_RIVALS,
    LIBRARY,
    RIVALS,
    UnknownRivalError,
    check_rivals,
    engine_class,
)

NETWORK: dict[str, Any] = {"name_or_path": "support.networks:Residual", "inputs": [[1, 8, 6, 6]], "seed": 3}
"""Has two outputs in a mapping, whose order each engine must keep."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the inputs, and the network as an ONNX file and as a library."""
    folder = tmp_path_factory.mktemp("network")
    network = load_network(**NETWORK)
    save_arrays(folder / "inputs.npz", network.inputs)
    target = parse_target("llvm")
    compile_network(to_relax(network, target), target).export(folder / "library.so")
    if not onnx_export.missing():
        exporter = ExportProcess(str(folder / "inputs.npz"), NETWORK)
        exporter.prepare()
        assert exporter.export(str(folder / "onnx"))["export_s"] > 0
    return folder


def check_engine(location: str, files: Path, outputs: Path, device: str = CPU) -> None:
    """Runs all operations of the engine's process here."""
    kind = engine_class(location)
    if reason := kind.missing(device):
        pytest.skip(reason)
    network = NETWORK if kind.form is Form.MODULE else None
    path = {Form.ONNX: str(files / "onnx"), Form.LIBRARY: str(files / "library.so")}.get(kind.form)
    process = EngineProcess(location, 2, str(files / "inputs.npz"), network, path, device=device)
    process.prepare()
    loaded = process.load(str(outputs))
    assert loaded["ready_s"] > 0 and loaded["version"].startswith(f"{kind.package} ")
    assert compare_outputs(load_network(**NETWORK).reference_outputs(), load_arrays(outputs)).agrees
    turn = process.turn(0.01)
    assert 0 < turn["latency_s"] < 1 and turn["calls"] >= 1
    assert turn["peak_mb"] == pytest.approx(peak_mb(), rel=0.01)


@pytest.mark.parametrize("location", [RIVALS[name] for name in DEFAULT_RIVALS] + [LIBRARY])
def test_an_engine_gives_the_reference_outputs(location: str, files: Path, tmp_path: Path) -> None:
    check_engine(location, files, tmp_path / "outputs.npz")


@pytest.mark.parametrize("name", ["eager", "eager_channels_last", "onnxruntime", "openvino"])
def test_an_engine_runs_other_shapes(name: str, tmp_path: Path) -> None:
    kind = engine_class(RIVALS[name])
    if reason := kind.missing() or onnx_export.missing():
        pytest.skip(reason)
    first, other = (load_network(**{**NETWORK, "inputs": [shape]}) for shape in ([2, 8, 7, 7], [1, 8, 3, 5]))
    inputs, path = tmp_path / "inputs.npz", tmp_path / "network.onnx"
    save_arrays(inputs, first.inputs)
    arguments = {**NETWORK, "inputs": [[2, 8, 7, 7]]}
    if kind.form is Form.ONNX:
        dims = {"b": "1:4", "h": "2:8", "w": "2:8"}
        dynamic = {"network": "", "inputs": [["b", 8, "h", "w"]], "batch": 1, "dims": dims}
        exporter = ExportProcess(str(inputs), arguments, dynamic)
        exporter.prepare()
        exporter.export(str(path))
    bounds = [[[1, 4], 8, [2, 8], [2, 8]]]
    network = arguments if kind.form is Form.MODULE else None
    process = EngineProcess(RIVALS[name], 2, str(inputs), network, str(path), bounds=bounds)
    process.prepare()
    outputs = tmp_path / "outputs.npz"
    assert process.load(str(outputs))["compilations"] is None
    assert compare_outputs(first.reference_outputs(), load_arrays(outputs)).agrees
    save_arrays(inputs, other.inputs)
    assert process.bind(str(inputs), str(outputs))["first_s"] > 0
    assert compare_outputs(other.reference_outputs(), load_arrays(outputs)).agrees
    assert process.turn(0.01)["calls"] >= 1


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in RIVALS if CUDA in engine_class(RIVALS[name]).devices])
def test_pytorch_runs_on_a_gpu_in_float32(
    name: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in engine_class(RIVALS[name]).environment(2, tmp_path / "cache").items():
        monkeypatch.setenv(variable, value)
    check_engine(RIVALS[name], files, tmp_path / "outputs.npz", CUDA)


def test_pytorch_without_a_gpu_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "finds no CUDA device" in engine_class(RIVALS["eager"]).missing(CUDA)
    assert engine_class(RIVALS["eager"]).missing(CPU) == ""
    assert engine_class(RIVALS["openvino"]).devices == (CPU,)


@pytest.mark.parametrize(
    ("name", "dtypes"),
    [("eager", {"bfloat16"}), ("onnxruntime", {"float32"}), ("openvino", {"bfloat16", "float32"})],
)
def test_an_engine_says_which_data_type_it_runs_in(
    name: str, dtypes: set[str], files: Path, tmp_path: Path
) -> None:
    kind = engine_class(RIVALS[name])
    if reason := kind.missing():
        pytest.skip(reason)
    network = NETWORK if kind.form is Form.MODULE else None
    path = str(files / "onnx") if kind.form is Form.ONNX else None
    process = EngineProcess(RIVALS[name], 2, str(files / "inputs.npz"), network, path, "bfloat16")
    process.prepare()
    dtype = process.load(str(tmp_path / "outputs.npz"))["dtype"]
    assert dtype in dtypes
    reference, outputs = load_network(**NETWORK).reference_outputs(), load_arrays(tmp_path / "outputs.npz")
    assert all(array.dtype == np.float32 for array in outputs)
    assert compare_outputs(reference, outputs).agrees == (dtype == "float32")
    assert compare_narrow_outputs(reference, outputs, None).agrees


@pytest.mark.slow
def test_torch_compile_gives_the_reference_outputs(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in Inductor.environment(2, tmp_path / "cache").items():
        monkeypatch.setenv(name, value)
    check_engine(RIVALS["inductor"], files, tmp_path / "outputs.npz")
    assert list((tmp_path / "cache").iterdir())  # no cache of other runs


def test_torch_compile_needs_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inductor.shutil, "which", lambda name: None)
    assert "install g++" in InductorMaxAutotune.missing()


def test_an_engine_that_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = engine_class(RIVALS["openvino"])
    monkeypatch.setattr(kind, "module", "no_such_module")
    assert kind.missing() == "openvino is not installed (pip install 'foretune[rivals]')"
    assert (onnx_export.missing() == "") == all(find_spec(name) for name in ("onnx", "onnxscript"))


def test_channels_last_is_for_networks_with_convolutions() -> None:
    kind = engine_class(RIVALS["eager_channels_last"])
    assert kind.unfit(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.ReLU())) == ""
    assert "no two-dimensional convolution" in kind.unfit(torch.nn.Linear(3, 4))
    assert engine_class(RIVALS["eager"]).unfit(torch.nn.Linear(3, 4)) == ""


def test_titles_differ() -> None:
    titles = [engine_class(location).title for location in (*RIVALS.values(), LIBRARY)]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["eager", "openvinoo"], "rivals=openvinoo: unknown; did you mean openvino"),
        (["tensorrt"], "rivals=tensorrt: unknown; Use some of eager, eager_channels_last, inductor"),
        (["eager", "eager"], "rivals=eager: named twice"),
    ],
)
def test_a_name_that_cannot_be_is_one_clear_error(names: list[str], message: str) -> None:
    check_rivals([*RIVALS])
    with pytest.raises(UnknownRivalError, match=message):
        check_rivals(names)


def test_arrays_survive_their_file(tmp_path: Path) -> None:
    arrays = [np.arange(6, dtype=np.int64).reshape(2, 3), np.array(0.5, np.float32), np.zeros((0, 4))]
    save_arrays(tmp_path / "arrays.npz", arrays)
    found = load_arrays(tmp_path / "arrays.npz")
    assert [array.dtype for array in found] == [array.dtype for array in arrays]
    assert all(np.array_equal(one, other) for one, other in zip(found, arrays, strict=True))
    assert all(array.ctypes.data % 64 == 0 for array in found if array.size)
