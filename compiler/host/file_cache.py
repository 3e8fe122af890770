"""Files of one kind in the user's cache folder, which any run may read, write, remove or damage.

A file begins with a hash of its name and content. A file that is damaged, or that has another file's name, is
ignored. Processes write a file of another name and rename it, so that no reader meets half a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from uuid import uuid4

from ...cache_folder import cache_folder

_LIBRARIES = ("apache-tvm", "apache-tvm-ffi", "torch", "onnx", "onnxruntime", "numpy")
_HASH_BYTES = 64
"""Length of a SHA-256 in hexadecimal."""


@dataclass(frozen=True)
class FileCache:
    """Files in one folder."""

    name: str
    """Name of the folder in the cache folder, and suffix of its files."""
    most_bytes: int
    """Size of all files together; the files used last stay."""

    @property
    def folder(self) -> Path:
        """The folder, which may not exist yet."""
        return cache_folder() / self.name

    def path(self, key: str) -> Path:
        """File of a key, which may not exist."""
        return self.folder / f"{key}.{self.name}"

    def has(self, prefix: str) -> bool:
        """Whether the key of some file, which may be damaged, begins with these letters or digits."""
        return any(self.folder.glob(f"{prefix}*.{self.name}"))

    def load(self, key: str) -> memoryview | None:
        """The content of a file; None without a whole file of this user."""
        path = self.path(key)
        try:
            if not _is_private(self.folder):
                return None
            data = memoryview(path.read_bytes())
        except OSError:
            return None
        if _hashed(key, [data[_HASH_BYTES:]]) != bytes(data[:_HASH_BYTES]):
            return None
        with suppress(OSError):  # of a folder that cannot be written
            os.utime(path)
        return data[_HASH_BYTES:]

    def store(self, files: Mapping[str, Sequence[bytes | memoryview]]) -> None:
        """Writes files, each given in parts, as far as there is room; removes those unused for longest.

        A file over half of `most_bytes` is not written.
        """
        kept: dict[str, Sequence[bytes | memoryview]] = {}
        left_bytes = self.most_bytes
        for key, parts in files.items():
            if (size := _size(parts)) <= min(left_bytes, self.most_bytes // 2):
                kept[key], left_bytes = parts, left_bytes - size
        with suppress(OSError):  # missing files are made again
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(left_bytes)
            for key, parts in kept.items():
                self._write(key, parts)

    def remove(self, key: str) -> None:
        """Removes a file if it exists."""
        with suppress(OSError):
            self.path(key).unlink()

    def clear(self) -> None:
        """Removes all files."""
        self._make_room(-1)

    def _write(self, key: str, parts: Sequence[bytes | memoryview]) -> None:
        path = self.path(key)
        partial = path.with_name(f".{uuid4().hex}.{path.name}")  # with the suffix, to be removed if it stays
        try:
            with partial.open("wb") as file:
                file.writelines([_hashed(key, parts), *parts])
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    def _make_room(self, most_bytes: int) -> None:
        """Removes the files that were not used for longest, until the others have at most this size."""
        files = []
        for path in self.folder.glob(f"*.{self.name}"):
            with suppress(OSError):  # another run removes files, too
                found = path.stat()
                files.append((found.st_mtime, found.st_size, path))
        for _, size, path in sorted(files, reverse=True):
            most_bytes -= size
            if most_bytes < 0:
                with suppress(OSError):
                    path.unlink()


def _size(parts: Sequence[bytes | memoryview]) -> int:
    return _HASH_BYTES + sum(map(len, parts))


def _hashed(key: str, parts: Sequence[bytes | memoryview]) -> bytes:
    hashed = sha256(key.encode())
    for part in parts:
        hashed.update(part)
    return hashed.hexdigest().encode()


def _is_private(folder: Path) -> bool:
    """Whether only this user writes to the folder: others could make this process run their code."""
    found = folder.stat()
    return not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o022)


@cache
def code_version(package: Path = Path(__file__).parents[1]) -> tuple[str, ...]:
    """Hash of a package's sources, by default `compiler`, and the versions of the libraries.

    Every key should depend on it.
    """
    sources = sha256()
    for path in sorted(package.rglob("*.py")):
        sources.update(f"{path.relative_to(package)}\n".encode() + path.read_bytes())
    return sources.hexdigest(), *_versions()


def _versions() -> Iterator[str]:
    for name in _LIBRARIES:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            yield f"no {name}"
