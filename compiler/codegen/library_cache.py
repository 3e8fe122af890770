"""Compiled networks in the user's cache folder, which a run loads instead of compiling the same module again.

The name of a file is a hash of everything that the code depends on: the module with its schedules and
weights, the target, the sources that compile it, and the versions of the libraries. A hash of these without
the weights comes first: if no file has it, the weights need not be read. A run keeps only a library whose
outputs agreed with the original's, and compares the outputs of one that it finds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import tvm
import tvm_ffi
from tvm.target import Target

from ..host.file_cache import FileCache, code_version
from ..tvm_compat import target_to_json
from .lifted_constants import with_lifted_constants

LIBRARIES = FileCache("libraries", 2**30)


class KeptLibrary:
    """Place of a compiled network in the cache, which may hold its library."""

    def __init__(self, form: str, weights: Sequence[tvm.runtime.Tensor]) -> None:
        """Reads the library of these weights if there is one. `form` is a hash of everything else."""
        self._form, self._weights = form, weights
        self.task_of: Mapping[str, str] | None = None
        """Name of the task of each function of the library that runs one; None without a library."""
        self._library = memoryview(b"")
        if LIBRARIES.has(form) and (content := LIBRARIES.load(self.key)) is not None:
            head = bytes(content[: int.from_bytes(content[:4], "big")])[4:]
            self.task_of = json.loads(head)
            self._library = content[4 + len(head) :]

    @cached_property
    def key(self) -> str:
        """Name of the file."""
        return self._form + _hash_of([_structure(one) for one in self._weights])

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
    bare, weights = with_lifted_constants(scheduled_mod)
    facts = [_structure(bare), target_to_json(target), *code_version(), *code_version(sources)]
    return KeptLibrary(_hash_of(facts), weights)


def _structure(value: tvm.IRModule | tvm.runtime.Tensor) -> str:
    return f"{tvm_ffi.structural_hash(value) & 0xFFFFFFFFFFFFFFFF:016x}"


def _hash_of(facts: Sequence[str]) -> str:
    return sha256(repr(facts).encode()).hexdigest()
