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
class Compiled:
    """One template as it was compiled."""

    tiling: Tiling
    registers: int
    """Of a thread."""
    stack_bytes: int
    """Of a thread, to which registers spill; 0 where none do."""
    shared_bytes: int
    """Of a block."""
    assembly: str
    """PTX."""

    def rejected_by(self, gpu: Gpu) -> str:
        """Reason why the template is not worth running, "" where there is none.

        Spills are looked at first: massive ones leave few registers in use.
        """
        if self.stack_bytes:
            return f"spills {self.stack_bytes} bytes a thread"
        if self.shared_bytes > gpu.shared_bytes:
            return f"{self.shared_bytes} bytes of shared memory"
        return ""


def compiled(problem: Problem, tiling: Tiling, gpu: Gpu) -> Compiled:
    """Compiles a template. Sizes are arguments of the kernel; those that 8 or 16 divides are known to be.

    Raises GpuTemplateError where Triton is missing or interprets, or where it does not compile the template.
    """
    triton = _triton()
    backend = importlib.import_module("triton.backends.compiler")
    compiler = importlib.import_module("triton.compiler")
    kernel = getattr(importlib.import_module(f"{__package__}.kernels"), problem.kernel)
    constants, types = problem.constants(tiling), list(problem.types.values())
    signature = {
        **dict(zip(problem.arguments, (f"*{dtype}" for dtype in problem.passed(types)), strict=True)),
        **dict.fromkeys(problem.sizes, "i32"),
        **dict.fromkeys(constants, "constexpr"),
    }
    divisors = {
        **dict.fromkeys(problem.arguments, _ALIGNED),
        **{name: math.gcd(size, _ALIGNED) for name, size in problem.sizes.items()},
    }
    names = list(signature)
    attributes = {
        (names.index(name),): [["tt.divisibility", divisor]]
        for name, divisor in divisors.items()
        if divisor >= _LOADED
    }
    source = compiler.ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
    options = {"num_warps": tiling.warps, "num_stages": tiling.stages, "ptx_version": _PTX}
    try:
        found = triton.compile(source, target=backend.GPUTarget("cuda", gpu.capability, 32), options=options)
    except Exception as error:  # the compiler's passes raise many types
        raise GpuTemplateError(f"{problem} {tiling}: Triton does not compile it: {error}") from error
    registers, stack = _usage(found.asm["cubin"])
    return Compiled(tiling, registers, stack, int(found.metadata.shared), found.asm["ptx"])


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
