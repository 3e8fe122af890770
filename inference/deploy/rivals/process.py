"""Process of one engine, or of the ONNX export. See `dataset.measure.worker.loop.main`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....compiler.host.meter import Meter
from ....dataset.measure.worker.loop import main
from ..turn import timed_turn
from .base import CPU, Bounds, Engine, Form, NetworkSource
from .onnx_export import export_onnx
from .registry import engine_class

_STATUS = Path("/proc/self/status")
_ALIGNMENT_BYTES = 64


class EngineProcess:
    """Operations of the process of one engine.

    Args:
        engine: location of its class, as in `registry.RIVALS`.
        threads: threads that it may use.
        inputs: file from `save_arrays` with the example inputs.
        network: arguments of `load_network`, for an engine that runs a module.
        path: file with the network, for an engine that reads one; it may appear any time before `load`.
        bounds: shapes of the inputs that the network must run, or None; see `NetworkSource.bounds`.
        dtype: data type that the engine should use.
        device: kind of device that the engine should use.
    """

    def __init__(
        self,
        engine: str,
        threads: int,
        inputs: str,
        network: Mapping[str, Any] | None,
        path: str | None,
        dtype: str = "float32",
        device: str = CPU,
        bounds: Sequence[Sequence[int | Sequence[int]]] | None = None,
    ) -> None:
        self._engine: Engine = engine_class(engine)(threads, dtype, device)
        self._inputs, self._network = Path(inputs), network
        self._path = None if path is None else Path(path)
        self._bounds = None if bounds is None else tuple(map(_as_bounds, bounds))

    def usable(self) -> bool:
        """See Operations."""
        return True

    def prepare(self) -> None:
        """Imports the engine, and builds the module if the engine runs one."""
        self._engine.prepare()
        inputs = load_arrays(self._inputs)
        if self._engine.form is Form.MODULE:
            assert self._network is not None
            source = module_source(self._network, inputs)
        else:
            source = NetworkSource(inputs, path=self._path)
        self._source = replace(source, bounds=self._bounds)

    def load(self, outputs: str) -> dict[str, Any]:
        """Makes the network runnable, and saves the outputs of its first run with `save_arrays`."""
        start = time.perf_counter()
        self._bind = self._engine.load(self._source)
        self._call = self._bind(self._source.inputs)
        first = self._call()
        ready_s = time.perf_counter() - start
        save_arrays(Path(outputs), self._engine.arrays(first))
        self._meter = Meter()
        return {
            "ready_s": ready_s,
            "version": self._engine.version(),
            "dtype": self._engine.dtype,
            "compilations": self._engine.compilations(),
        }

    def bind(self, inputs: str, outputs: str) -> dict[str, Any]:
        """Takes the inputs of a file from `save_arrays`, of any shapes within the bounds, for later turns.

        Saves the outputs of the first run on them, and reports its seconds.
        """
        arrays = load_arrays(Path(inputs))
        start = time.perf_counter()
        self._call = self._bind(arrays)
        first = self._call()
        first_s = time.perf_counter() - start
        save_arrays(Path(outputs), self._engine.arrays(first))
        return {"first_s": first_s, "compilations": self._engine.compilations()}

    def turn(self, seconds: float) -> dict[str, Any]:
        """Fields of a Turn, and the process's peak memory so far."""
        return {**asdict(timed_turn(self._call, seconds, meter=self._meter)), "peak_mb": peak_mb()}


class ExportProcess:
    """Operations of the process that exports a PyTorch network to ONNX.

    `dynamic` are arguments of `dynamic_inputs`, for a file with symbolic extents.
    """

    def __init__(
        self, inputs: str, network: Mapping[str, Any], dynamic: Mapping[str, Any] | None = None
    ) -> None:
        self._inputs, self._network, self._dynamic = Path(inputs), network, dynamic

    def usable(self) -> bool:
        """See Operations."""
        return True

    def prepare(self) -> None:
        """Builds the module."""
        self._source = module_source(self._network, load_arrays(self._inputs))

    def export(self, path: str) -> dict[str, Any]:
        """Writes the ONNX file."""
        start = time.perf_counter()
        export_onnx(self._source, Path(path), self._dynamic)
        return {"export_s": time.perf_counter() - start}


def module_source(network: Mapping[str, Any], inputs: tuple[NDArray[Any], ...]) -> NetworkSource:
    """The module that `load_network` builds from these arguments."""
    from ....compiler.networks import load_network  # imports torch

    return NetworkSource(inputs, module=load_network(**network).module)


def _as_bounds(shape: Sequence[int | Sequence[int]]) -> Bounds:
    return tuple(extent if isinstance(extent, int) else (extent[0], extent[1]) for extent in shape)


def save_arrays(path: Path, arrays: tuple[NDArray[Any], ...] | list[NDArray[Any]]) -> None:
    """Writes arrays in order."""
    with path.open("wb") as file:
        np.savez(file, *arrays)


def load_arrays(path: Path) -> tuple[NDArray[Any], ...]:
    """Inverse of `save_arrays`; arrays start at multiples of 64 bytes, so engines read them in place."""
    with np.load(path, allow_pickle=False) as found:
        return tuple(_aligned(found[f"arr_{number}"]) for number in range(len(found.files)))


def _aligned(array: NDArray[Any]) -> NDArray[Any]:
    memory = np.empty(array.nbytes + _ALIGNMENT_BYTES, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT_BYTES
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def peak_mb() -> float | None:
    """Peak resident memory of this process in megabytes; None if the system does not report it.

    Only Linux reports it: the peak of `getrusage` includes the process that started this one.
    """
    try:
        fields = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024 / 1e6
    except (OSError, KeyError, ValueError):
        return None


def _make(role: str, target: str, config: Mapping[str, Any], settings: dict[str, Any]) -> Any:
    return {"engine": EngineProcess, "export": ExportProcess}[role](**settings)


if __name__ == "__main__":
    main(_make)
