"""Runners: contestants of a comparison, each controlled in a separate process or in this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray
from tvm.target import Target

from ...dataset.measure.job import MeasureConfig
from ...dataset.measure.worker.isolation import pinned_to_first_core
from ...dataset.measure.worker.process import WorkerLostError, WorkerProcess, WorkerSpec
from ...dataset.records.schema import FailureKind
from .compile import CompiledNetwork
from .rivals.base import CPU, Bounds, Form
from .rivals.process import load_arrays
from .rivals.registry import engine_class
from .rivals.tvm_library import TvmLibrary
from .turn import Turn, timed_turn

MODULE = "foretune.inference.deploy.rivals.process"

SHARES_IMPORTS = False
"""Whether contestants share their imports. They do not: each starts as its users start it."""

TURN_LIMIT_S = 300.0
"""Seconds after which a turn is aborted."""

_SHOWN_CHARS = 200


class RunnerError(Exception):
    """The contestant failed, died or timed out; the message appears in its row."""


@dataclass(frozen=True, eq=False)
class Loaded:
    """A contestant that can run."""

    outputs: list[NDArray[Any]]
    """Outputs of the first run."""
    ready_s: float
    """Seconds to load or compile the network, including the first run."""
    version: str
    dtype: str = ""
    """Data type that the contestant uses, or "" if unknown."""
    compilations: int | None = None
    """Number of compilations, of an engine that compiles at its calls."""


@dataclass(frozen=True, eq=False)
class Bound:
    """A contestant that runs on other inputs than before."""

    outputs: list[NDArray[Any]]
    """Outputs of the first run on them."""
    first_s: float
    """Seconds of this run."""
    compilations: int | None
    """Number of compilations so far, of an engine that compiles at its calls."""


class Runner(Protocol):
    """Contestant; each method raises RunnerError."""

    name: str
    own_process: bool
    peak_mb: float | None
    """Peak resident memory of its process so far, or None if unknown."""

    def wait(self) -> None:
        """Waits until the process has finished its imports."""

    def load(self) -> Loaded:
        """Makes the network runnable, and runs it once."""

    def turn(self, seconds: float) -> Turn:
        """Times calls for `seconds`, but at least one call."""

    def close(self) -> None:
        """Ends the contestant."""


class EngineWorker:
    """Process that serves a role of `rivals.process`; it starts immediately."""

    def __init__(
        self, role: str, settings: Mapping[str, Any], environment: Mapping[str, str], *, torch: bool = True
    ) -> None:
        """`torch` states whether the process may import torch, which takes a second if it has TVM."""
        spec = WorkerSpec(
            *(role, Target("llvm"), MeasureConfig()),
            environment=environment,
            settings=settings,
            module=MODULE,
            torch=torch,
            shares_imports=SHARES_IMPORTS,
        )
        self._process = WorkerProcess(spec)

    def wait(self, limit_s: float) -> None:
        """Waits until the process is ready."""
        try:
            self._process.receive_ready(limit_s)
        except WorkerLostError as gone:
            raise RunnerError(first_line(str(gone))) from gone

    def ask(self, limit_s: float, **request: Any) -> dict[str, Any]:
        """The reply to a request."""
        self._process.send(request)
        try:
            reply = self._process.receive(limit_s, FailureKind.RUN_TIMEOUT)
        except WorkerLostError as gone:
            raise RunnerError(first_line(str(gone))) from gone
        if "error" in reply:
            raise RunnerError(first_line(str(reply["error"])))
        return reply

    def close(self) -> None:
        self._process.kill()


class ProcessRunner:
    """Engine in a separate process, which imports at once and loads on request.

    Args:
        engine: location of its class, as in `rivals.registry.RIVALS`.
        inputs: file from `save_arrays` with the example inputs.
        folder: empty folder for files of the process.
        network: arguments of `load_network`, for an engine that runs a module.
        path: file with the network, for an engine that reads one.
        limit_s: seconds allowed for the imports, and then for loading.
        dtype: data type that the engine should run in.
        device: kind of device that the engine should run on.
        bounds: shapes of the inputs that the network must run, for `bind`; see `NetworkSource.bounds`.
    """

    own_process = True

    def __init__(
        self,
        name: str,
        engine: str,
        *,
        threads: int,
        inputs: Path,
        folder: Path,
        network: Mapping[str, Any] | None = None,
        path: Path | None = None,
        limit_s: float,
        dtype: str = "float32",
        device: str = CPU,
        bounds: Sequence[Bounds] | None = None,
    ) -> None:
        self.name = name
        self.peak_mb: float | None = None
        self._folder, self._limit_s = folder, limit_s
        folder.mkdir()
        kind = engine_class(engine)
        self._worker = EngineWorker(
            "engine",
            {
                "engine": engine,
                "threads": threads,
                "inputs": str(inputs),
                "network": network,
                "path": None if path is None else str(path),
                "dtype": dtype,
                "device": device,
                "bounds": bounds,
            },
            kind.environment(threads, folder / "cache"),
            torch=kind.form is not Form.LIBRARY,  # a user of the library needs TVM alone
        )

    def wait(self) -> None:
        """See Runner."""
        self._worker.wait(self._limit_s)

    def load(self) -> Loaded:
        """See Runner."""
        outputs = self._folder / "outputs.npz"
        reply = self._worker.ask(self._limit_s, op="load", outputs=str(outputs))
        facts = {name: reply[name] for name in ("ready_s", "version", "dtype", "compilations")}
        return Loaded(list(load_arrays(outputs)), **facts)

    def bind(self, inputs: Path) -> Bound:
        """Runs once on the inputs of a file from `save_arrays`; later turns take the same."""
        outputs = self._folder / "outputs.npz"
        reply = self._worker.ask(self._limit_s, op="bind", inputs=str(inputs), outputs=str(outputs))
        return Bound(list(load_arrays(outputs)), reply["first_s"], reply["compilations"])

    def turn(self, seconds: float) -> Turn:
        """See Runner."""
        reply = self._worker.ask(TURN_LIMIT_S, op="turn", seconds=seconds)
        self.peak_mb = reply.pop("peak_mb")
        return Turn(**reply)

    def close(self) -> None:
        """See Runner."""
        self._worker.close()


class InlineRunner:
    """Network that TVM compiled in this process, for a GPU or if no compiler can link a library.

    Timing starts from the first core, because TVM binds its other threads to the cores after it.
    """

    own_process = False
    peak_mb: float | None = None

    def __init__(
        self, name: str, compiled: CompiledNetwork, inputs: tuple[NDArray[Any], ...], dtype: str = "float32"
    ) -> None:
        self.name = name
        self._compiled, self._inputs, self._dtype = compiled, inputs, dtype
        self._call: Callable[[], Any] = compiled.bind(*inputs)

    def wait(self) -> None:
        """See Runner."""

    def load(self) -> Loaded:
        """See Runner."""
        return Loaded(self._compiled(*self._inputs), 0.0, TvmLibrary.version(), self._dtype)

    def turn(self, seconds: float) -> Turn:
        """See Runner."""
        return timed_turn(self._call, seconds, around=pinned_to_first_core)

    def close(self) -> None:
        """See Runner."""


def first_line(text: str) -> str:
    """The first meaningful line of a message, shortened to fit a table."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "no message")
    return line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}..."
