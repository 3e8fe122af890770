"""Weights and bytecode of a network, for the linker.

TVM lets LLVM make an object file of them, which copies hundreds of megabytes several times in memory. Here,
the assembler includes them from a file.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm.target import Target

from .linker import architecture_of

LARGE_BYTES = 2**30
"""Size above which a section of x86-64 is a large one: code expects all others within 2 GB."""


def packing(target: Target) -> Callable[..., str] | None:
    """Argument `fpack_imports` of `export_library`; None for systems with other object files than ELF."""
    if platform.system() != "Linux":
        return None
    may_be_large = architecture_of(target) == "x86_64"

    def pack(module: tvm.runtime.Module, is_system_lib: bool, prefix: str, folder: str) -> str:
        """Writes the imports of a module into a folder; returns the path of the assembler's file."""
        # Without a copy, which `numpy()` of TVM makes.
        content = np.from_dlpack(tvm.get_global_func("runtime.ModulePackImportsToTensor")(module))
        symbol = prefix + tvm.get_global_func("runtime.ModuleImportsBlobName")()
        large = may_be_large and content.nbytes > LARGE_BYTES
        return str(write_included(Path(folder) / "imports.s", symbol, content, large=large))

    return pack


def write_included(path: Path, symbol: str, content: NDArray[Any], *, large: bool) -> Path:
    """Writes a file for the assembler whose only symbol is this array of uint8 [size]; returns its path."""
    included = path.with_suffix(".bin")
    content.tofile(included)
    quoted = str(included).replace("\\", r"\\").replace('"', r"\"")
    lines = [
        '.section .lrodata,"al",%progbits' if large else '.section .rodata,"a",%progbits',
        f".globl {symbol}",
        f".type {symbol},%object",
        f".size {symbol},{content.nbytes}",
        ".balign 64",
        f"{symbol}:",
        f'.incbin "{quoted}"',
        '.section .note.GNU-stack,"",%progbits',  # without it, the linker makes the stack executable
    ]
    path.write_text("\n".join(lines) + "\n")
    return path
