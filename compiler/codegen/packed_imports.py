"""Object file with the weights and the bytecode of a network, for the linker.

TVM lets LLVM make this file, which copies hundreds of megabytes of weights several times in memory. Here, the
headers of an ELF file are written around them.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm.target import Target

from .linker import architecture_of

_MACHINES = {"x86_64": 62, "aarch64": 183}
"""Number of each architecture in ELF, of those whose files have 64 bits and no flags."""

LARGE_BYTES = 2**30
"""Size above which a section of x86-64 is a large one: code expects all others within 2 GB."""

_HEADER = struct.Struct("<4s4B8xHHIQQQI6H")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")

_64_BITS, _LITTLE_ENDIAN, _VERSION, _RELOCATABLE = 2, 1, 1, 1
_NOTHING, _DATA, _SYMBOLS, _NAMES = 0, 1, 2, 3
"""Types of sections."""
_LOADED, _LARGE = 0x2, 0x10000000
"""Flags of sections."""
_GLOBAL_OBJECT = 0x11
_ALIGNMENT = 64


def packing(target: Target) -> Callable[..., str] | None:
    """Argument `fpack_imports` of `export_library`; None for systems with other object files."""
    machine = _MACHINES.get(architecture_of(target))
    if machine is None or platform.system() != "Linux":
        return None

    def pack(module: tvm.runtime.Module, is_system_lib: bool, prefix: str, folder: str) -> str:
        """Writes the imports of a module into an object file in a folder; returns its path."""
        # Without a copy, which `numpy()` of TVM makes.
        content = np.from_dlpack(tvm.get_global_func("runtime.ModulePackImportsToTensor")(module))
        symbol = prefix + tvm.get_global_func("runtime.ModuleImportsBlobName")()
        path = Path(folder) / "imports.o"
        write_object(path, symbol, content, machine)
        return str(path)

    return pack


class _Section(NamedTuple):
    """Section of an object file, without its place."""

    name: str
    type: int
    content: Any = b""
    flags: int = 0
    link: int = 0
    info: int = 0
    entry_bytes: int = 0


def write_object(path: Path, symbol: str, content: NDArray[Any], machine: int) -> None:
    """Writes a 64-bit ELF object file whose only symbol is this array of uint8 [size], read-only."""
    large = content.nbytes > LARGE_BYTES and machine == _MACHINES["x86_64"]
    # The first entry of a table of symbols is empty; the other one is in the first section.
    symbols = bytes(_SYMBOL.size) + _SYMBOL.pack(1, _GLOBAL_OBJECT, 0, 1, 0, content.nbytes)
    sections = [
        _Section("", _NOTHING),
        _Section(".lrodata" if large else ".rodata", _DATA, content, _LOADED | large * _LARGE),
        _Section(".symtab", _SYMBOLS, symbols, link=3, info=1, entry_bytes=_SYMBOL.size),
        _Section(".strtab", _NAMES, f"\0{symbol}\0".encode()),
        _Section(".note.GNU-stack", _DATA),  # without it, the linker makes the stack executable
    ]
    names = _Section(".shstrtab", _NAMES)
    text = "\0".join(section.name for section in [*sections, names]) + "\0"
    sections.append(names._replace(content=text.encode()))
    table, start, name = b"", _ALIGNMENT, 0
    for section in sections:
        size = len(section.content)
        table += _SECTION.pack(
            *(name, section.type, section.flags, 0, start, size, section.link, section.info),
            *(_ALIGNMENT, section.entry_bytes),
        )
        start += _padded(size)
        name += len(section.name) + 1
    header = _HEADER.pack(
        *(b"\x7fELF", _64_BITS, _LITTLE_ENDIAN, _VERSION, 0, _RELOCATABLE, machine, _VERSION, 0, 0, start, 0),
        *(_HEADER.size, 0, 0, _SECTION.size, len(sections), len(sections) - 1),
    )
    with path.open("wb") as file:
        file.write(header)
        for section in sections:
            file.write(section.content)
            file.write(bytes(_padded(len(section.content)) - len(section.content)))
        file.write(table)


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
