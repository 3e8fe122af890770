"""Loading an exported network: calls, memory, and files that it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import foretune
import numpy as np
import pytest
import torch
import tvm
import tvm_ffi
from foretune.compiler.codegen.checksum import elf_bytes
from foretune.compiler.networks import Lowering, Network, load_network, to_relax
from foretune.compiler.tvm_compat import OLDER_CPU, host_cpu, parse_target
from foretune.inference.deploy import load as subject
from foretune.inference.deploy.arrays import InputError
from foretune.inference.deploy.compile import compile_network
from foretune.inference.deploy.description import TensorSpec
from foretune.inference.deploy.load import LoadedNetwork, LoadError, load
from tvm import relax
from tvm.support.cc import get_cc

pytestmark = pytest.mark.skipif(get_cc() is None, reason="no C++ compiler")

RESIDUAL = ("support.networks:Residual", [[1, 8, 6, 6]])
SHARED = ("support.networks:SharedOutputs", [[4, 4]])


def exported(name: str, inputs: list[Any], path: Path, target: Any = "llvm") -> Network:
    network, parsed = load_network(name, inputs=inputs), parse_target(target)
    compile_network(to_relax(network, parsed), parsed).export(path)
    return network


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "residual.so"
    exported(*RESIDUAL, path)
    return path


@pytest.fixture(scope="module")
def network() -> Network:
    return load_network(RESIDUAL[0], inputs=RESIDUAL[1])


@pytest.fixture(scope="module")
def loaded(library: Path) -> LoadedNetwork:
    return load(library)


def test_it_computes_what_pytorch_does(network: Network, loaded: LoadedNetwork) -> None:
    expected = network.reference_outputs()
    for inputs in (network.inputs, network.torch_inputs()):
        outputs = loaded(*inputs)
        assert isinstance(outputs, tuple) and all(isinstance(o, type(inputs[0])) for o in outputs)
        for output, reference in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(np.asarray(output), reference, rtol=1e-3, atol=1e-4)


def test_it_knows_its_inputs_and_outputs(loaded: LoadedNetwork) -> None:
    assert loaded.inputs == (TensorSpec("x", (1, 8, 6, 6), "float32"),)
    assert [spec.shape for spec in loaded.outputs] == [(1, 8, 6, 6), (1, 3)]
    assert "x: float32 [1, 8, 6, 6]" in repr(loaded)


def test_a_wrong_input_is_named(loaded: LoadedNetwork) -> None:
    with pytest.raises(InputError, match=r"input x: float32 \[1, 8, 6, 5\] given"):
        loaded(np.zeros((1, 8, 6, 5), np.float32))


def test_outputs_of_one_call_are_not_touched_by_the_next(network: Network, loaded: LoadedNetwork) -> None:
    x = network.inputs[0]
    first = loaded(x)
    kept = [output.copy() for output in first]
    for scale in (2, 3, 4):
        later = loaded(scale * x)
        assert not any(np.shares_memory(a, b) for a in first for b in later)
    for output, copy in zip(first, kept, strict=True):
        np.testing.assert_array_equal(output, copy)


def test_outputs_take_over_the_memory_that_the_network_wrote(
    network: Network, loaded: LoadedNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    flatten = subject.flatten

    def noted(output: Any) -> list[tvm.runtime.Tensor]:
        tensors = flatten(output)
        written.extend(np.from_dlpack(tensor).ctypes.data for tensor in tensors)
        return tensors

    monkeypatch.setattr(subject, "flatten", noted)
    assert [output.ctypes.data for output in loaded(*network.inputs)] == written
    written.clear()
    assert [output.data_ptr() for output in loaded(*network.torch_inputs())] == written


def test_outputs_share_no_memory_with_inputs_weights_and_each_other(tmp_path: Path) -> None:
    """The network returns its input, a view of it, a weight, and one result twice."""
    network = exported(*SHARED, tmp_path / "shared.so")
    shared = load(tmp_path / "shared.so")
    x = torch.randn(4, 4)
    given = x.clone()
    first = shared(x)
    for output in first:
        output.zero_()
    assert torch.equal(x, given)
    expected = [leaf.numpy() for leaf in network.module(x)]  # type: ignore[misc]
    for output, reference in zip(shared(x), expected, strict=True):
        np.testing.assert_allclose(output.numpy(), reference, rtol=1e-5, atol=1e-6)
    kept = shared(x.numpy())
    shared(np.ones((4, 4), np.float32))
    for output, reference in zip(kept, expected, strict=True):
        np.testing.assert_allclose(output, reference, rtol=1e-5, atol=1e-6)


def test_a_network_with_one_output_returns_it_alone(tmp_path: Path) -> None:
    network = exported("torch.nn:ReLU", [[3, 4]], tmp_path / "relu.so")
    output = load(tmp_path / "relu.so")(*network.inputs)
    np.testing.assert_array_equal(output, np.maximum(network.inputs[0], 0))


def test_calls_from_several_threads_give_each_its_own_result(network: Network, loaded: LoadedNetwork) -> None:
    x = network.inputs[0]
    expected = {scale: loaded(scale * x)[1] for scale in range(6)}
    wrong: list[int] = []

    def call(scale: int) -> None:
        for _ in range(20):
            if not np.array_equal(loaded(scale * x)[1], expected[scale]):
                wrong.append(scale)

    threads = [threading.Thread(target=call, args=(scale,)) for scale in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_importing_foretune_imports_no_tvm() -> None:
    code = "import sys, foretune; sys.exit(any(name in sys.modules for name in ('tvm', 'torch', 'numpy')))"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert foretune.load is load and foretune.inference.load is load  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'unload'"):
        foretune.unload  # noqa: B018


# --- files that it refuses


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"none\.so: no such file; give the file that foretune tune"):
        load(tmp_path / "none.so")


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("a network")
    with pytest.raises(LoadError, match=r"text\.so: no shared library; give"):
        load(tmp_path / "text.so")


@pytest.mark.parametrize("kept", [10, 3000, -100])
def test_a_library_that_is_cut_off_is_named(library: Path, tmp_path: Path, kept: int) -> None:
    """Loaded, it would end the process."""
    (tmp_path / "cut.so").write_bytes(library.read_bytes()[:kept])
    with pytest.raises(LoadError, match=r"cut\.so: cut off, [\d,]+ of [\d,]+ bytes; copy or export"):
        load(tmp_path / "cut.so")


@pytest.mark.parametrize("place", [0.5, 0.999, -1])
def test_a_damaged_library_is_named_and_not_run(library: Path, tmp_path: Path, place: float) -> None:
    """Bytes in the middle are code and weights: without the check, it computes other values. The last place
    is the checksum itself, which may also lack a byte."""
    content = bytearray(library.read_bytes())
    if place < 0:
        del content[-1]
    else:
        begin = int(place * len(content)) - 100
        content[begin : begin + 200] = bytes(byte ^ 0xFF for byte in content[begin : begin + 200])
    (tmp_path / "damaged.so").write_bytes(content)
    with pytest.raises(LoadError, match=r"damaged\.so: damaged, .* checksum at its end; copy or export"):
        load(tmp_path / "damaged.so")


def test_a_library_of_an_older_release_loads_with_a_warning(
    library: Path, tmp_path: Path, network: Network
) -> None:
    with library.open("rb") as file:
        whole = elf_bytes(file)
    content = library.read_bytes()
    assert whole is not None and whole < len(content)
    (tmp_path / "older.so").write_bytes(content[:whole])
    with pytest.warns(UserWarning, match=r"older\.so: has no checksum.*export it again"):
        older = load(tmp_path / "older.so")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = load(library)(*network.inputs)
    for output, reference in zip(older(*network.inputs), expected, strict=True):
        np.testing.assert_array_equal(output, reference)


def test_what_the_loader_says_is_passed_on(tmp_path: Path) -> None:
    sound = Path(tvm_ffi.core.__file__).read_bytes()
    machine = 18  # where the header names the kind of processor
    (tmp_path / "other.so").write_bytes(sound[:machine] + b"\xff\xff" + sound[machine + 2 :])
    with pytest.raises(LoadError, match=r"other\.so: cannot be loaded \(.*\); export"):
        load(tmp_path / "other.so")


def test_a_library_that_is_no_network_is_named() -> None:
    with pytest.raises(LoadError, match="a shared library, but no Relax executable"):
        load(tvm_ffi.core.__file__)


def test_a_network_of_stock_tvm_is_named(tmp_path: Path) -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.nn.relu(x)))
    tvm.compile(builder.get(), target="llvm").export_library(str(tmp_path / "stock.so"))
    with pytest.raises(LoadError, match=r"stock\.so: a Relax executable that does not tell its inputs"):
        load(tmp_path / "stock.so")


SAPPHIRE_RAPIDS = {"kind": "llvm", "mcpu": "sapphirerapids", "num-cores": 2}


def test_a_network_for_another_cpu_is_named_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OLDER_CPU, "haswell")
    exported(*RESIDUAL, tmp_path / "other.so", SAPPHIRE_RAPIDS)
    with pytest.raises(LoadError, match=r"for the CPU sapphirerapids, whose instruction sets .*amx-tile"):
        load(tmp_path / "other.so")


@pytest.mark.cpu
def test_a_library_in_bfloat16_does_not_end_the_process_of_a_cpu_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, target = load_network(RESIDUAL[0], inputs=RESIDUAL[1]), parse_target(SAPPHIRE_RAPIDS)
    path = tmp_path / "bfloat16.so"
    compile_network(to_relax(network, target, Lowering(dtype="bfloat16")), target).export(path)
    monkeypatch.setattr(host_cpu, "_machine_features", lambda: {"avx512bf16": False, "amx-bf16": False})
    monkeypatch.delenv(OLDER_CPU, raising=False)
    with pytest.raises(LoadError, match=r"whose instruction sets .*avx512bf16.* this CPU lacks"):
        load(path)


def test_threads_are_those_of_the_target(tmp_path: Path, library: Path) -> None:
    cores = {**json.loads(str(parse_target("llvm"))), "num-cores": 1}
    exported(*RESIDUAL, tmp_path / "one.so", cores)
    assert load(tmp_path / "one.so").threads == 1
    assert load(library, threads=1).threads == 1
