"""An exported network that follows its file: a call loads the newer library if the file was exchanged."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypeAlias

from ...errors import UserError
from ..deploy.arrays import Array
from ..deploy.description import TensorSpec
from ..run.network_profile import NetworkProfile

FileState: TypeAlias = "tuple[int, int, int, int] | None"
"""Device, inode, time of the last change in nanoseconds, and size in bytes; None without a file."""


class ExchangedNetworkError(UserError, ValueError):
    """The file of a followed network now holds a network with other inputs or outputs."""


class Followable(Protocol):
    """A loaded network; see `deploy.load.LoadedNetwork`."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    target: str
    threads: int

    def __call__(self, *inputs: Array) -> Any:
        """Runs the network."""

    def profile(self, *inputs: Array, repeats: int = 10) -> NetworkProfile:
        """Times the calls inside a run."""


class FollowedNetwork:
    """Exported network as a function, which runs the newest library of its file.

    Each call compares the file's inode, time and size with the ones before, which takes a few microseconds.
    If they differ, the call loads the new library first; calls of other threads go on with the library that
    they have. The library before stays in memory until its last call ends. Replace the file by a rename, as
    `foretune tune` does: to overwrite a library in use ends the process.

    A library that cannot be loaded is a warning, and the one before stays in use. So it does after
    ExchangedNetworkError, which the call that noticed the file raises for other inputs or outputs.
    """

    def __init__(self, path: Path, load: Callable[[], Followable]) -> None:
        """`load` loads the file at `path`; raises its errors."""
        self.path = path
        self._load = load
        self._lock = threading.Lock()
        self._state = _state_of(path)
        self._network = load()

    def __call__(self, *inputs: Array) -> Any:
        """Runs the network. Raises InputError, ExchangedNetworkError."""
        return self._current()(*inputs)

    def profile(self, *inputs: Array, repeats: int = 10) -> NetworkProfile:
        """See `LoadedNetwork.profile`; raises ExchangedNetworkError, too."""
        return self._current().profile(*inputs, repeats=repeats)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, shape and dtype of each input."""
        return self._network.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Name, shape and dtype of each output."""
        return self._network.outputs

    @property
    def target(self) -> str:
        """TVM target of the code in use, as JSON."""
        return self._network.target

    @property
    def threads(self) -> int:
        """Threads that a call uses."""
        return self._network.threads

    def __repr__(self) -> str:
        return f"FollowedNetwork({self._network!r})"

    def _current(self) -> Followable:
        if _state_of(self.path) != self._state and self._lock.acquire(blocking=False):
            try:
                self._take_newer()
            finally:
                self._lock.release()
        return self._network

    def _take_newer(self) -> None:
        # If the file is exchanged once more while it is loaded, the next call notices this state as old.
        self._state = _state_of(self.path)
        try:
            newer = self._load()
        except Exception as error:  # of a damaged file
            warnings.warn(
                f"the earlier library stays in use, because the new file cannot be loaded: {error}",
                RuntimeWarning,
                stacklevel=4,
            )
            return
        for kind in ("inputs", "outputs"):
            old, new = getattr(self._network, kind), getattr(newer, kind)
            if old != new:
                raise ExchangedNetworkError(
                    f"{self.path}: the new library has the {kind} {_listed(new)} instead of {_listed(old)}; "
                    "the earlier library stays in use: load the file again for the new one"
                )
        self._network = newer


@contextmanager
def unused_name(path: Path) -> Iterator[Path]:
    """Another name of a library, under which this process has not loaded any library.

    The loader of the system returns the library that it has loaded under a name, even if the file of this
    name is another one now.
    """
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(TemporaryDirectory(prefix="foretune-"))
            link = Path(folder) / path.name
            link.symlink_to(path.resolve())
        except (OSError, NotImplementedError):  # no writable folder, or no right to make links
            link = path
        yield link


def _state_of(path: Path) -> FileState:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _listed(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(map(str, specs)) or "none"
