"""Compilation of translated text by g++, with a precompiled header."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

NATIVE = Path(__file__).parent / "native"
_HEADER = "cuda_on_cpu.h"
_COMMON = ("-std=c++17", "-w", "-fPIC", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE")
# Barriers are calls that the optimiser cannot see through, so that plain optimisation keeps the order of
# accesses. -O1 loads a value once where the text reads it twice without a store between, as a device's
# compiler does.
_KERNEL = (*_COMMON, "-O1", "-fvisibility=hidden")
# Each access of the kernel calls a hook of the tracer.
_TRACED = (*_KERNEL, "-fsanitize=thread")


def unavailable_reason() -> str | None:
    """The reason why CUDA cannot be emulated here, None where it can."""
    if os.uname().sysname != "Linux":
        return "emulation of CUDA needs Linux"
    return None if shutil.which("g++") else "emulation of CUDA needs g++"


class Compiler:
    """g++ with the emulation's headers; keeps what it compiles in `cache`, which processes may share."""

    def __init__(self, cache: Path) -> None:
        sources = b"".join(path.read_bytes() for path in sorted(NATIVE.iterdir()))
        self._cache = cache / hashlib.sha256(sources).hexdigest()[:16]  # nothing of other sources is kept
        self._cache.mkdir(parents=True, exist_ok=True)

    def runtime(self) -> Path:
        """Library that executes kernels."""
        sources = [str(NATIVE / "runtime.cc"), str(NATIVE / "trace.cc")]
        return self._made("runtime.so", [*_COMMON, "-O2", "-shared", *sources])

    def driver(self) -> Path:
        """Library that names the devices, as NVIDIA's driver does."""
        (self._cache / "driver").mkdir(exist_ok=True)
        return self._made("driver/libcuda.so.1", [*_COMMON, "-O1", "-shared", str(NATIVE / "driver.cc")])

    def kernels(self, text: str, trace: bool) -> Path:
        """Library of a module's kernels, with hooks for the tracer if `trace`. Raises RuntimeError."""
        flags = _TRACED if trace else _KERNEL
        folder = self._cache / ("traced" if trace else "plain")
        folder.mkdir(exist_ok=True)
        self._made(f"{folder.name}/{_HEADER}.gch", [*flags, "-x", "c++-header", str(NATIVE / _HEADER)])
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        source = folder / f"{name}.cc"
        if not source.exists():
            _write(source, text)
        compiled = self._made(
            f"{folder.name}/{name}.o", [*flags, "-c", f"-I{folder}", f"-I{NATIVE}", str(source)]
        )
        # Linked apart, so that the sanitizer's own library stays out.
        return self._made(f"{folder.name}/{name}.so", ["-shared", str(compiled)])

    def _made(self, name: str, arguments: Sequence[str]) -> Path:
        """File `name` of the cache; another process may make the same one meanwhile."""
        path = self._cache / name
        if path.exists():
            return path
        beside = path.with_name(f"{os.getpid()}.{path.name}")
        result = subprocess.run(["g++", *arguments, "-o", str(beside)], capture_output=True, text=True)
        if result.returncode:
            raise RuntimeError(f"g++ fails on {name}:\n{result.stderr[:3000]}")
        beside.replace(path)
        return path


def _write(path: Path, text: str) -> None:
    beside = path.with_name(f"{os.getpid()}.{path.name}")
    beside.write_text(text)
    beside.replace(path)
