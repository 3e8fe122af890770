"""Comparison of the tuned network with other ways to run the network, each in a separate process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray
from tvm.support.cc import get_cc
from tvm.target import Target

from ...compiler.networks import Network
from ...compiler.targets import is_cpu
from ...compiler.tvm_compat import available_cores
from ...compiler.types import INT8
from ...dataset.measure.worker.scratch import ScratchFolder
from ..run.result import TUNED, UNTUNED, Contestant
from .compile import CompiledNetwork, NetworkBuildError
from .outputs import OutputCheck
from .rivals.base import CPU, Engine, Form
from .rivals.onnx_exporter import OnnxExporter
from .rivals.process import save_arrays
from .rivals.registry import LIBRARY, RIVALS, engine_class
from .rivals.taking_part import why_not
from .runners import InlineRunner, ProcessRunner, Runner, RunnerError
from .timing import Timing, time_in_turns

if TYPE_CHECKING:
    from ..run.config import TuneConfig

TVM_LIMIT_S = 900.0
"""Seconds that a network compiled by TVM may spend loading and running once; an untuned one is slow."""

Compare = Callable[[Sequence[NDArray[Any]]], OutputCheck]
"""Compares a contestant's outputs with those of the original; the same function serves all contestants."""


@dataclass(frozen=True, eq=False)
class CompiledForm:
    """The tuned or the untuned network."""

    name: str
    compiled: CompiledNetwork
    ready_s: float
    """Seconds spent on this contestant so far."""


@dataclass(eq=False)
class _Entry:
    """A contestant and its results so far."""

    runner: Runner
    before_s: float
    """Seconds spent on the network before the contestant could load it."""
    row: Contestant
    timing: Timing = field(default_factory=Timing)


class _Library(NamedTuple):
    """Library to export, and the process that will load it."""

    path: Path
    runner: ProcessRunner


class Comparison:
    """Contestants of one network on this machine; `close` ends their processes.

    Args:
        network: the network.
        arguments: arguments of `load_network`, from which a rival's process builds the same network.
        forms: names of the forms that TVM compiles. On a CPU, each form is exported and timed in a separate
            process. On a GPU, or without a C++ compiler, it is timed in this process.
        rivals: names in `rivals.registry.RIVALS`; only the ones that run on `device` take part.
        device: kind of device that `forms` run on, such as cpu.
        limit_s: seconds that a rival may spend on its start, and then on becoming ready.
        dtype: data type that contestants should use if they can.
    """

    def __init__(
        self,
        network: Network,
        arguments: Mapping[str, Any],
        forms: Sequence[str],
        rivals: Sequence[str],
        *,
        device: str = CPU,
        limit_s: float = 120.0,
        dtype: str = "float32",
    ) -> None:
        self._dtype = dtype
        self._network, self._arguments, self._forms = network, dict(arguments), forms
        self._device, self._limit_s = device, limit_s
        self.left_out: dict[str, str] = {}
        """Reasons of the rivals that cannot take part, by title."""
        self._kinds: dict[str, type[Engine]] = {}
        for name in rivals:
            kind = engine_class(RIVALS[name])
            by_file, has_module = kind.form is Form.ONNX, network.module is not None
            sent = self._arguments if has_module else None
            if reason := why_not(kind, network, sent, exports=by_file and has_module, device=device):
                self.left_out[kind.title] = reason
            else:
                self._kinds[name] = kind
        self._entries: list[_Entry] = []
        self._readers: list[_Entry] = []
        """Entries of the rivals that read the exported ONNX file."""
        self._libraries: dict[str, _Library] = {}
        self._exporter: OnnxExporter | None = None
        self._file = network.quantised_path if dtype == INT8 else network.onnx_path
        """Existing ONNX file, or None to export one from the module."""
        self._onnx = self._file or Path()
        self._stack = ExitStack()

    def __enter__(self) -> Comparison:
        scratch = ScratchFolder()
        self._stack.callback(scratch.cleanup)
        self._folder, self._inputs = scratch.path, scratch.path / "inputs.npz"
        save_arrays(self._inputs, self._network.inputs)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the processes and removes their files."""
        self._stack.close()

    def start(self, forms: Sequence[str] | None = None) -> None:
        """Starts the processes that will load TVM's libraries; their imports run in the background.

        `forms` are the ones to start, by default all. A form whose process runs is left out.
        """
        if self._device == CPU and get_cc() is not None:
            for number, name in enumerate(self._forms):
                if name not in self._libraries and (forms is None or name in forms):
                    self._libraries[name] = self._library(name, self._folder / f"{number}.so")

    def enter(self, forms: Sequence[CompiledForm]) -> None:
        """Adds TVM's compiled forms, and starts the rivals' processes, whose imports run in parallel.

        A form that was announced may be missing.
        """
        for name in self._libraries.keys() - {form.name for form in forms}:
            self._libraries[name].runner.close()
        self._entries = [self._form(form) for form in forms]
        if self._file is None:
            self._onnx = self._folder / "network.onnx"
        self._exporter = self._started_exporter()
        for name, kind in self._kinds.items():
            by_file = kind.form is Form.ONNX
            runner = ProcessRunner(
                kind.title,
                RIVALS[name],
                threads=available_cores(),
                inputs=self._inputs,
                folder=self._folder / name,
                network=None if by_file else self._arguments,
                path=self._onnx.absolute() if by_file else None,
                limit_s=self._limit_s,
                dtype=self._dtype,
                device=self._device,
            )
            self._stack.callback(runner.close)
            before_s = self._network.quantised_s if by_file and self._dtype == INT8 else 0.0
            entry = _Entry(runner, before_s, Contestant(kind.title))
            self._entries.append(entry)
            if by_file:
                self._readers.append(entry)

    def prepare(self, compare: Compare) -> None:
        """Loads the contestants, runs each once and checks its outputs with `compare`.

        They load the network sequentially, so that no contestant inflates the `ready_s` of another.
        """
        for entry in self._entries:
            _attempt(entry, entry.runner.wait)
        if self._exporter is not None:
            self._export(self._exporter)
        for entry in self._entries:
            if not entry.row.error:
                _attempt(entry, lambda entry=entry: self._load(entry, compare))  # type: ignore[misc]

    def time(self, repeats: int) -> list[Contestant]:
        """Times the contestants with correct outputs, and returns a row for each contestant."""
        able = [entry for entry in self._entries if not entry.row.error]
        timings = time_in_turns([entry.runner for entry in able], repeats=repeats)
        for entry, timing in zip(able, timings, strict=True):
            samples_s = timing.samples_s
            entry.row = replace(
                entry.row,
                peak_mb=entry.runner.peak_mb,
                samples_s=samples_s,
                median_s=statistics.median(samples_s) if samples_s else None,
                min_s=min(samples_s, default=None),
                disturbed=timing.disturbed,
                error=timing.error,
            )
        return [entry.row for entry in self._entries]

    def _library(self, name: str, path: Path) -> _Library:
        runner = ProcessRunner(
            name,
            LIBRARY,
            threads=available_cores(),
            inputs=self._inputs,
            folder=path.with_suffix(""),
            path=path,
            limit_s=TVM_LIMIT_S,
            dtype=self._dtype,
        )
        self._stack.callback(runner.close)
        return _Library(path, runner)

    def _form(self, form: CompiledForm) -> _Entry:
        """Runner in the process that waits for its library, or in this process without a linked library."""
        start, library = time.perf_counter(), self._libraries.get(form.name)
        runner: Runner | None = None
        if library is not None:
            try:
                form.compiled.lend(library.path)
                runner = library.runner
            except NetworkBuildError:
                library.runner.close()
        if runner is None:
            runner = InlineRunner(form.name, form.compiled, self._network.inputs, self._dtype)
            self._stack.callback(runner.close)
        before_s = form.ready_s + time.perf_counter() - start
        return _Entry(runner, before_s, Contestant(form.name, own_process=runner.own_process))

    def _started_exporter(self) -> OnnxExporter | None:
        if self._file is not None or all(kind.form is not Form.ONNX for kind in self._kinds.values()):
            return None
        exporter = OnnxExporter(self._onnx, self._inputs, self._arguments)
        self._stack.callback(exporter.close)
        return exporter

    def _export(self, exporter: OnnxExporter) -> None:
        """Writes the ONNX file; its export time counts for each engine that reads it."""
        try:
            export_s = exporter.export(self._limit_s)
        except RunnerError as error:
            for entry in self._readers:
                entry.row = replace(entry.row, error=str(error))
        else:
            for entry in self._readers:
                entry.before_s += export_s

    def _load(self, entry: _Entry, compare: Compare) -> None:
        loaded = entry.runner.load()
        ready_s = entry.before_s + loaded.ready_s
        entry.row = replace(entry.row, version=loaded.version, ready_s=ready_s, dtype=loaded.dtype)
        check = compare(loaded.outputs)
        entry.row = replace(entry.row, max_abs_difference=check.max_abs_difference)
        if not check.agrees and entry.row.name not in self._forms:
            raise RunnerError(f"other outputs: {check.describe()}")


def comparison_of(config: TuneConfig, network: Network, target: Target) -> Comparison:
    """Comparison of a run's tuned and untuned network with the rivals of its settings."""
    return Comparison(
        network,
        config.network_arguments,
        [TUNED, UNTUNED],
        config.rivals,
        device=CPU if is_cpu(target) else target.kind.name,
        limit_s=config.rival_limit_s,
        dtype=config.lowering.dtype,
    )


def _attempt(entry: _Entry, step: Callable[[], None]) -> None:
    """Runs a step of a contestant; an error is recorded in the row, and the contestant's process ends.

    Otherwise a process that exceeded its limit would keep running while the others are timed.
    """
    try:
        step()
    except (RunnerError, ValueError) as error:
        entry.row = replace(entry.row, error=str(error))
        entry.runner.close()
