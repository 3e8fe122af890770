"""Files of converted networks in the user's cache folder.

The name of a file is a hash of everything that the conversion depends on: what the network computes, with
its weights (`fingerprint`), the lowering, the target, the sources of `compiler`, and the versions of the
libraries. A hash of these without the fingerprint comes first: if no file has it, the network need not run
and its weights need not be read. A damaged file is no error: the network is converted again, and the file
replaced.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from tvm.target import Target

from ...host.file_cache import FileCache, code_version
from ...tvm_compat import target_to_json
from ...types import INTEGERS
from ..loading import Network
from ..lowering.lowering import Lowering
from ..size import weight_bytes
from .fingerprint import fingerprint
from .stored_module import StoredModule, module_of, parts_of

NETWORKS = FileCache("networks", 2 * 2**30)


@dataclass(frozen=True)
class CacheEntry:
    """File of one network, which may not exist yet."""

    key: str

    @property
    def path(self) -> Path:
        """Path of the file."""
        return NETWORKS.path(self.key)

    def load(self) -> StoredModule | None:
        """The module; None without a whole file."""
        content = NETWORKS.load(self.key)
        try:
            return None if content is None else module_of(content)
        except Exception:  # TVM raises several types for another content
            return None

    def store(self, stored: StoredModule) -> None:
        """Writes the module, unless there is no room."""
        NETWORKS.store({self.key: parts_of(stored)})


def entry_of(network: Network, target: Target, lowering: Lowering) -> CacheEntry | None:
    """CacheEntry of a network; None if it has no fingerprint. Runs the network and reads its weights."""
    found = fingerprint(network, quantised=lowering.data_type.network == INTEGERS)
    return None if found is None else CacheEntry(_form(network, target, lowering) + found)


def may_have_entry(network: Network, target: Target, lowering: Lowering) -> bool:
    """Whether there is a file of a network that may be this one, which only `entry_of` can tell."""
    return NETWORKS.has(_form(network, target, lowering))


def _form(network: Network, target: Target, lowering: Lowering) -> str:
    """Hash of everything that a conversion depends on, with only the sizes of weights and inputs."""
    sizes = weight_bytes(network), [(array.shape, str(array.dtype)) for array in network.inputs]
    facts = [sizes, sorted(asdict(lowering).items()), target_to_json(target), *code_version()]
    return sha256(repr(facts).encode()).hexdigest()
