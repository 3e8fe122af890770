"""Weights reach a library unchanged, in an object file that the linker takes."""

from __future__ import annotations

import ctypes
import platform
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tvm
from foretune.compiler.codegen import packed_imports
from foretune.compiler.codegen.packed_imports import packing, write_object
from foretune.compiler.tvm_compat import parse_target
from tvm import relax

X86_64, AARCH64 = 62, 183
HERE = {"x86_64": X86_64, "aarch64": AARCH64}.get(platform.machine())
pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="object files are ELF on Linux alone")


def sections(path: Path) -> dict[str, int]:
    """Flags of each section of a file by its name, read from its headers."""
    data = path.read_bytes()
    (start,) = struct.unpack_from("<Q", data, 40)
    size, number, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, start + size * one) for one in range(number)]
    text = data[headers[names][4] :]
    return {text[name : text.index(b"\0", name)].decode(): flags for name, _, flags, *_ in headers}


@pytest.mark.parametrize("size", [1, 64, 1000])
@pytest.mark.parametrize("most_bytes", [10**6, 10])
@pytest.mark.skipif(HERE is None or shutil.which("g++") is None, reason="no linker for this machine's files")
def test_a_linked_array_keeps_its_bytes(
    size: int, most_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_imports, "LARGE_BYTES", most_bytes)
    assert HERE is not None
    content, path = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8), tmp_path / "one.o"
    write_object(path, "numbers", content, HERE)
    library = tmp_path / "one.so"
    done = subprocess.run(["g++", "-shared", "-o", library, path], check=True, capture_output=True, text=True)
    assert done.stderr == ""  # such as a warning of an executable stack
    array = (ctypes.c_ubyte * size).in_dll(ctypes.CDLL(str(library)), "numbers")
    assert bytes(array) == content.tobytes()


def test_only_a_large_array_of_x86_64_is_in_a_large_section(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_imports, "LARGE_BYTES", 8)
    found = {}
    for machine, size in [(X86_64, 8), (X86_64, 9), (AARCH64, 9)]:
        write_object(path := tmp_path / "one.o", "numbers", np.zeros(size, np.uint8), machine)
        ((name, flags),) = [(name, flags) for name, flags in sections(path).items() if flags]
        found[machine, size] = name, flags
    large = ".lrodata", 0x2 | 0x10000000
    assert found == {(X86_64, 8): (".rodata", 2), (X86_64, 9): large, (AARCH64, 9): (".rodata", 2)}


def test_a_library_computes_with_its_constants(tmp_path: Path) -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((3,), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(
            builder.emit(relax.op.add(x, relax.const(np.array([1, 10, 100], np.float32))))
        )
    target = parse_target("llvm")
    pack = packing(target)
    assert pack is not None
    path = tmp_path / "sum.so"
    tvm.compile(builder.get(), target=target).export_library(str(path), fpack_imports=pack)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(np.array([1, 2, 3], np.float32)))
    np.testing.assert_array_equal(found.numpy(), [2, 12, 103])


def test_the_file_is_one_of_the_targets_architecture(tmp_path: Path) -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1,), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.add(x, x)))
    executable = tvm.compile(builder.get(), target="llvm")
    machines = {}
    for architecture in ("x86_64", "arm64"):
        pack = packing(parse_target({"kind": "llvm", "mtriple": f"{architecture}-linux-gnu"}))
        assert pack is not None
        file = Path(pack(executable.mod, False, "", str(tmp_path)))
        (machines[architecture],) = struct.unpack_from("<H", file.read_bytes(), 18)
    assert machines == {"x86_64": X86_64, "arm64": AARCH64}
    assert packing(parse_target({"kind": "llvm", "mtriple": "riscv64-linux-gnu"})) is None
