"""Weights reach a library unchanged, from a file that the assembler includes."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tvm
from foretune.compiler.codegen import packed_imports
from foretune.compiler.codegen.packed_imports import packing, write_included
from foretune.compiler.tvm_compat import parse_target
from tvm import relax

pytestmark = [
    pytest.mark.skipif(platform.system() != "Linux", reason="object files are ELF on Linux alone"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="no assembler"),
]


@pytest.mark.parametrize("size", [1, 64, 1000])
@pytest.mark.parametrize(
    "large",
    [
        pytest.param(
            True,
            marks=pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has large sections"),
        ),
        False,
    ],
)
def test_a_linked_array_keeps_its_bytes(size: int, large: bool, tmp_path: Path) -> None:
    (folder := tmp_path / 'a "quoted\\ folder').mkdir()
    content = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8)
    file = write_included(folder / "one.s", "numbers", content, large=large)
    library = tmp_path / "one.so"
    done = subprocess.run(["g++", "-shared", "-o", library, file], check=True, capture_output=True, text=True)
    assert done.stderr == ""  # such as a warning of an executable stack
    array = (ctypes.c_ubyte * size).in_dll(ctypes.CDLL(str(library)), "numbers")
    assert bytes(array) == content.tobytes()


def constant_sum() -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((3,), "float32"))
    with builder.function("main", [x]):
        constant = relax.const(np.array([1, 10, 100], np.float32))
        builder.emit_func_output(builder.emit(relax.op.add(x, constant)))
    return builder.get()


def test_a_library_computes_with_its_constants(tmp_path: Path) -> None:
    target = parse_target("llvm")
    path = tmp_path / "sum.so"
    tvm.compile(constant_sum(), target=target).export_library(str(path), fpack_imports=packing(target))
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(np.array([1, 2, 3], np.float32)))
    np.testing.assert_array_equal(found.numpy(), [2, 12, 103])


def test_only_many_weights_of_x86_64_are_in_a_large_section(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable = tvm.compile(constant_sum(), target="llvm")
    large = {}
    for architecture, most_bytes in [("x86_64", 8), ("x86_64", 10**6), ("aarch64", 8)]:
        monkeypatch.setattr(packed_imports, "LARGE_BYTES", most_bytes)
        pack = packing(parse_target({"kind": "llvm", "mtriple": f"{architecture}-linux-gnu"}))
        assert pack is not None
        text = Path(pack(executable.mod, False, "", str(tmp_path))).read_text()
        large[architecture, most_bytes] = ".lrodata" in text
    assert large == {("x86_64", 8): True, ("x86_64", 10**6): False, ("aarch64", 8): False}


def test_systems_with_other_object_files_leave_it_to_tvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    assert packing(parse_target("llvm")) is None
