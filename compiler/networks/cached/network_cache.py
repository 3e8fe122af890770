"""Files of converted networks in the user's cache folder.

The name of a file is a hash of everything that the conversion depends on: what the network computes, with
its weights (`fingerprint`), the lowering, the target, the sources of `compiler`, and the versions of the
libraries. A damaged file is no error: the network is converted again, and the file replaced.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tvm.target import Target

from ....files import written_whole
from ...host.cache_folder import cache_folder
from ...tvm_compat import target_to_json
from ...types import INTEGERS
from ..loading import Network
from ..lowering.lowering import Lowering
from .fingerprint import fingerprint
from .stored_module import StoredModule, module_of, parts_of

LARGEST_BYTES = 2 * 2**30
"""Size of all files together; those that were used last stay."""

_LIBRARIES = ("apache-tvm", "apache-tvm-ffi", "torch", "onnx", "onnxruntime", "numpy")
_SUFFIX = ".network"


@dataclass(frozen=True)
class CacheEntry:
    """File of one network, which may not exist yet."""

    path: Path

    def load(self) -> StoredModule | None:
        """The module; None without a whole file."""
        try:
            found = module_of(self.path.read_bytes(), self.path.stem)
            os.utime(self.path)
        except Exception:  # TVM raises several types for another content
            return None
        return found

    def store(self, stored: StoredModule) -> None:
        """Writes the module, unless there is no room; removes the files that were not used for longest."""
        with suppress(OSError):  # it is converted again next time
            parts = parts_of(stored, self.path.stem)
            size = sum(len(part) for part in parts)
            if size > LARGEST_BYTES // 2:
                return
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make_room(self.path.parent, LARGEST_BYTES - size)
            with written_whole(self.path) as partial, partial.open("wb") as file:
                file.writelines(parts)


def entry_of(network: Network, target: Target, lowering: Lowering) -> CacheEntry | None:
    """CacheEntry of a network; None if it has no fingerprint."""
    found = fingerprint(network, quantised=lowering.data_type.network == INTEGERS)
    if found is None:
        return None
    facts = [found, sorted(asdict(lowering).items()), target_to_json(target), *_code()]
    return CacheEntry(cache_folder() / "networks" / f"{sha256(repr(facts).encode()).hexdigest()}{_SUFFIX}")


@cache
def _code() -> tuple[str, ...]:
    """Hash of the sources that convert networks, and the versions of the libraries."""
    package = Path(__file__).parents[2]
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


def _make_room(folder: Path, most_bytes: int) -> None:
    """Removes the files that were not used for longest, until the others have at most this size."""
    files = []
    for path in folder.glob(f"*{_SUFFIX}"):
        with suppress(OSError):  # another run removes files, too
            found = path.stat()
            files.append((found.st_mtime, found.st_size, path))
    for _, size, path in sorted(files, reverse=True):
        most_bytes -= size
        if most_bytes < 0:
            with suppress(OSError):
                path.unlink()
