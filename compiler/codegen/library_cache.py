"""Compiled networks in the user's cache folder, which a run loads instead of compiling the same module again.

The name of a file is a hash of everything that the code depends on: the module with its schedules and
weights, the target, the sources that compile it, and the versions of the libraries. A run keeps only a
library whose outputs agreed with the original's, and compares the outputs of one that it finds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import tvm
import tvm_ffi
from tvm.target import Target

from ..host.file_cache import FileCache, code_version
from ..tvm_compat import target_to_json

LIBRARIES = FileCache("libraries", 2**30)


class KeptLibrary:
    """Place of a compiled network in the cache, which may hold its library."""

    def __init__(self, key: str) -> None:
        """Reads the library if there is one."""
        self.key = key
        self.task_of: Mapping[str, str] | None = None
        """Name of the task of each function of the library that runs one; None without a library."""
        self._library = memoryview(b"")
        if (content := LIBRARIES.load(key)) is not None:
            head = bytes(content[: int.from_bytes(content[:4], "big")])[4:]
            self.task_of = json.loads(head)
            self._library = content[4 + len(head) :]

    def write(self, path: Path) -> None:
        """Writes the library to a file, once."""
        path.write_bytes(self._library)
        self._library = memoryview(b"")

    def store(self, library: Path, task_of: Mapping[str, str]) -> None:
        """Keeps a library, unless it is there already or too large."""
        if self.task_of is None and library.stat().st_size <= LIBRARIES.most_bytes // 2:
            head = json.dumps(dict(task_of)).encode()
            size = (4 + len(head)).to_bytes(4, "big")
            LIBRARIES.store({self.key: [size, head, library.read_bytes()]})

    def remove(self) -> None:
        """Removes the library from the cache."""
        LIBRARIES.remove(self.key)


def kept_library(scheduled_mod: tvm.IRModule, target: Target, sources: Path) -> KeptLibrary:
    """Place of the library of a module whose functions are scheduled.

    `sources` is the folder of the Python modules that compile it, in addition to those of `compiler`.
    """
    hashed = tvm_ffi.structural_hash(scheduled_mod) & 0xFFFFFFFFFFFFFFFF
    facts = [f"{hashed:016x}", target_to_json(target), *code_version(), *code_version(sources)]
    return KeptLibrary(sha256(repr(facts).encode()).hexdigest())
