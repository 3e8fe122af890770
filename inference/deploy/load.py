"""Exported networks in a user's process: `load` returns one as a function of arrays."""

from __future__ import annotations

import os
import platform
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import tvm
import tvm_ffi
from tvm import relax

from ...compiler.codegen.checksum import elf_bytes, has_right_checksum
from ...compiler.dynamic.symbols import BEYOND, Symbol
from ...compiler.targets import is_cpu
from ...compiler.tvm_compat import missing_instruction_sets, parse_target, target_cores
from ...errors import UserError
from ..anytime.follow import FollowedNetwork, unused_name
from ..run.network_profile import NetworkProfile
from .arrays import Array, InputError, InputTensors, as_outputs, flatten, is_torch
from .description import MAIN, Description, TensorSpec, read_description
from .profile import profile_network
from .scope_warnings import without_scope_warnings
from .threads import PoolOfThread, checked_threads


class LoadError(UserError, ValueError):
    """A file cannot be loaded as an exported network on this machine."""


class LoadedNetwork:
    """Exported network as a function: `outputs = network(*inputs)`.

    It accepts NumPy arrays and CPU tensors of torch, in the order of `inputs`. It returns torch tensors if
    any input is one, and NumPy arrays otherwise: a single array for a network with one output, and a tuple
    of arrays for several. A network of dynamic shapes runs any sizes in the ranges of its `symbols`,
    and, slowly, other sizes if it was tuned with `beyond=allow`.

    Inputs belong to the caller. The network reads them only during the call, and never writes them. It
    reads contiguous inputs at an address that is a multiple of 64 bytes in place; torch's tensors satisfy
    this. Outputs belong to the caller as
    well: each call returns new memory, which no later call touches.

    Concurrent calls from several threads run one at a time.
    """

    def __init__(
        self, path: Path, library: tvm.runtime.Module, description: Description, threads: int
    ) -> None:
        """See `load`."""
        self.path = path
        self.inputs: tuple[TensorSpec, ...] = description.inputs
        """Name, shape and dtype of each input."""
        self.outputs: tuple[TensorSpec, ...] = description.outputs
        """Name, shape and dtype of each output."""
        self.symbols: tuple[Symbol, ...] = description.symbols
        """Symbols in the shapes, with their ranges; empty for a network of fixed shapes."""
        self.target: str = description.target
        """TVM target of its code, as JSON."""
        self.beyond: bool = description.beyond
        """Whether calls with sizes outside of the ranges run, slowly."""
        self.families: Sequence[Mapping[str, Any]] = description.families
        """Kernels of each task of symbolic extents."""
        self.threads: int = threads
        """Threads that a call uses."""
        self._fresh = description.fresh
        self._library, self._tasks = library, description.tasks
        machine = relax.VirtualMachine(library, tvm.cpu())
        self._main = machine[MAIN]
        self._main_beyond = machine[BEYOND] if self.beyond else self._main
        self._tensors = InputTensors(self.inputs, self.symbols, beyond=self.beyond)
        self._lock = threading.Lock()
        self._pool = PoolOfThread(threads)

    def __call__(self, *inputs: Array) -> Any:
        """Runs the network. Raises InputError."""
        return self._pool.run(self._call, inputs)

    def profile(self, *inputs: Array, repeats: int = 10) -> NetworkProfile:
        """Times the calls inside the shortest of up to `repeats` runs: `print(network.profile(x))`.

        Function names are TVM's; `CallTime.task` names the task in `report.json`. Raises InputError,
        ProfileError.
        """
        return self._pool.run(self._profile, inputs, repeats)

    def _profile(self, inputs: Sequence[Any], repeats: int) -> NetworkProfile:
        with self._lock:
            tensors = self._tensors.take(inputs)
            if not self._tensors.inside:
                raise InputError(f"{self.path}: only sizes in the ranges are profiled; give such inputs")
            return profile_network(self._library, tvm.cpu(), tensors, self._tasks, repeats)

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, specs)) for specs in (self.inputs, self.outputs))
        ranges = "".join(f", {symbol}" for symbol in self.symbols)
        ranges += ", or slower beyond" if self.beyond else ""
        return f"LoadedNetwork({str(self.path)!r}: ({inputs}) -> ({outputs}){ranges}, threads={self.threads})"

    def _call(self, inputs: Sequence[Any]) -> Any:
        with self._lock:
            tensors = self._tensors.take(inputs)
            run = self._main if self._tensors.inside else self._main_beyond
            results = flatten(run(*tensors))
            outputs = as_outputs(results, self._fresh, torch=any(map(is_torch, inputs)))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


@overload
def load(
    path: str | Path, *, threads: int | None = None, follow: Literal[False] = False
) -> LoadedNetwork: ...


@overload
def load(path: str | Path, *, threads: int | None = None, follow: Literal[True]) -> FollowedNetwork: ...


def load(
    path: str | Path, *, threads: int | None = None, follow: bool = False
) -> LoadedNetwork | FollowedNetwork:
    """Loads a network that `foretune tune export=FILE` wrote, and runs it at the reported latency.

    Loading a shared library executes code from it, and so does every call: load only files that you trust.

    TVM's threads are set up for these calls, whatever ran in this process before. Threads of other
    libraries keep their settings. The only environment variable that changes is TVM_NUM_THREADS, and only
    if it is not set.

    Args:
        path: the shared library.
        threads: threads that a call uses; None uses as many as the network was tuned for, but at most one
            per core.
        follow: whether later calls load the newer library if the file was exchanged, as
            `foretune tune anytime=true` does; see `FollowedNetwork`.

    Warns about a file without a checksum, as older releases exported it. Raises LoadError for a file that
    is missing or damaged, does not hold an exported network, or was built for a CPU with other instruction
    sets; ThreadsError; DescriptionError.
    """
    path = Path(path)
    if follow:
        return FollowedNetwork(path, lambda: load(path, threads=threads))
    unprotected = _lacks_checksum(path)
    library = _opened(path)
    description = read_description(library)
    if description is None:
        raise LoadError(
            f"{path}: a Relax executable that does not tell its inputs, such as one of stock TVM or of an "
            "older release; export it again, or run it by tvm.relax.VirtualMachine"
        )
    target = parse_target(description.target)
    if not is_cpu(target):
        raise LoadError(
            f"{path}: exported for {target.kind.name}, and load runs networks on the CPU alone; run it by "
            f"tvm.relax.VirtualMachine on tvm.runtime.device({target.kind.name!r}, 0)"
        )
    if missing := missing_instruction_sets(target):
        raise LoadError(
            f"{path}: built for the CPU {target.attrs.get('mcpu', '')}, whose instruction sets "
            f"{', '.join(missing)} this CPU lacks; tune and export the network on this machine"
        )
    if unprotected:
        warnings.warn(
            f"{path}: has no checksum, so damage would go unnoticed; export it again with this release",
            stacklevel=2,
        )
    return LoadedNetwork(path, library, description, checked_threads(threads, target_cores(target)))


def _opened(path: Path) -> tvm.runtime.Module:
    """The library as a module that makes virtual machines. Raises LoadError."""
    try:
        with without_scope_warnings(), unused_name(path) as name:
            # TVM's own `load_module` resolves links, and never frees a library.
            library = tvm_ffi.load_module(name, keep_module_alive=False)
    except Exception as error:  # TVM passes on any error of the system's loader
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise LoadError(f"{path}: cannot be loaded ({reason}); export the network on this machine") from error
    if not library.implements_function("vm_load_executable"):
        raise LoadError(
            f"{path}: a shared library, but no Relax executable; give the file that foretune tune "
            "export=FILE wrote"
        )
    return library


def _lacks_checksum(path: Path) -> bool:
    """Whether a library has no checksum although its format allows one.

    Raises LoadError for a file that is missing, of another format, truncated or damaged. A truncated library
    would crash the process.
    """
    if not path.is_file():
        raise LoadError(f"{path}: no such file; give the file that foretune tune export=FILE wrote")
    with path.open("rb") as file:  # once, since another library may take its place meanwhile
        whole, found = elf_bytes(file), file.seek(0, os.SEEK_END)
        if platform.system() == "Linux":
            if whole is None:
                raise LoadError(
                    f"{path}: no shared library; give the file that foretune tune export=FILE wrote"
                )
            if found < whole:
                raise LoadError(f"{path}: cut off, {found:,} of {whole:,} bytes; copy or export it again")
        right = has_right_checksum(file)
    if right is False:
        raise LoadError(
            f"{path}: damaged, its content does not have the checksum at its end; copy or export it again"
        )
    return bool(whole) and right is None
