"""Ahead-of-time compilation of templates for a GPU that need not be here; needs Triton."""

from __future__ import annotations

import importlib
import math
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .launches import WORKSPACE, Launch
from .problem import GpuTemplateError, Problem
from .tiling import Gpu, Tiling

_USAGE = re.compile(r"REG:(\d+) STACK:(\d+)")
INSTALL = "pip install --no-deps triton"
"""Command that installs what templates are compiled with, and no PyTorch for CUDA."""

_ALIGNED = 16
_LOADED = 8
"""Values of 16 bits that a thread loads at once at most: fewer are not worth knowing."""

_PTX = 84
"""Version of the assembly, 10 times it: one that drivers older than Triton's compiler read."""


@dataclass(frozen=True)
class Kernel:
    """One compiled kernel."""

    registers: int
    """Of a thread."""
    stack_bytes: int
    """Of a thread, to which registers spill; 0 without spills."""
    shared_bytes: int
    """Of a block."""
    assembly: str
    """PTX."""


@dataclass(frozen=True)
class Compiled:
    """One compiled template: its kernels in the order of `Problem.launches`."""

    tiling: Tiling
    kernels: tuple[Kernel, ...]

    @property
    def registers(self) -> int:
        """Of a thread of the kernel with the most."""
        return max(kernel.registers for kernel in self.kernels)

    @property
    def shared_bytes(self) -> int:
        """Of a block of the kernel with the most."""
        return max(kernel.shared_bytes for kernel in self.kernels)

    def rejected_by(self, gpu: Gpu) -> str:
        """Reason why the template is not worth running, "" for none.

        Spills are looked at first: massive ones leave few registers in use.
        """
        if spilled := max(kernel.stack_bytes for kernel in self.kernels):
            return f"spills {spilled} bytes a thread"
        if self.shared_bytes > gpu.shared_bytes:
            return f"{self.shared_bytes} bytes of shared memory"
        return ""


def compiled(problem: Problem, tiling: Tiling, gpu: Gpu) -> Compiled:
    """Compiles a template. Sizes are arguments of a kernel; the compiler knows which of them 8 or 16 divides.

    Raises GpuTemplateError where Triton is missing or interprets, or if it does not compile the template.
    """
    launches = problem.launches(tiling)
    return Compiled(tiling, tuple(_compiled(problem, tiling, launch, gpu) for launch in launches))


def _compiled(problem: Problem, tiling: Tiling, launch: Launch, gpu: Gpu) -> Kernel:
    triton = _triton()
    backend = importlib.import_module("triton.backends.compiler")
    compiler = importlib.import_module("triton.compiler")
    kernel = getattr(importlib.import_module(f"{__package__}.{launch.module}"), launch.kernel)
    # The same array may be passed several times: the kernel's own names tell its parameters apart.
    pointers = kernel.arg_names[: len(launch.arguments)]
    types = launch.passed({**problem.types, WORKSPACE: "fp32"})
    signature = {
        **dict(zip(pointers, (f"*{dtype}" for dtype in types), strict=True)),
        **dict.fromkeys(launch.sizes, "i32"),
        **dict.fromkeys(launch.constants, "constexpr"),
    }
    divisors = {
        **dict.fromkeys(pointers, _ALIGNED),
        **{name: math.gcd(size, _ALIGNED) for name, size in launch.sizes.items()},
    }
    names = list(signature)
    attributes = {
        (names.index(name),): [["tt.divisibility", divisor]]
        for name, divisor in divisors.items()
        if divisor >= _LOADED
    }
    source = compiler.ASTSource(
        fn=kernel, signature=signature, constexprs=dict(launch.constants), attrs=attributes
    )
    options = {
        **{"num_warps": launch.warps, "num_stages": launch.stages},
        **{"ptx_version": _PTX, "enable_fp_fusion": True},
    }
    try:
        found = triton.compile(source, target=backend.GPUTarget("cuda", gpu.capability, 32), options=options)
    except Exception as error:  # the compiler's passes raise many types
        raise GpuTemplateError(f"{problem} {tiling}: Triton does not compile it: {error}") from error
    registers, stack = _usage(found.asm["cubin"])
    return Kernel(registers, stack, int(found.metadata.shared), found.asm["ptx"])


def _triton() -> Any:
    try:
        triton = importlib.import_module("triton")
    except ImportError as error:
        raise GpuTemplateError(f"GPU templates need Triton ({error}): {INSTALL}") from error
    if triton.knobs.runtime.interpret:
        raise GpuTemplateError("TRITON_INTERPRET=1: an interpreted kernel is not compiled; unset it")
    return triton


def _usage(cubin: bytes) -> tuple[int, int]:
    """Registers and bytes of stack of a thread, by the disassembler that comes with Triton."""
    folder = Path(importlib.import_module("triton.backends.nvidia").__file__ or "").parent / "bin"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        printed = subprocess.run(
            [str(folder / "cuobjdump"), "--dump-resource-usage", file.name],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    match = _USAGE.search(printed)
    assert match is not None, printed
    return int(match[1]), int(match[2])
