"""Comparison of engines at several sizes of a network of dynamic shapes, each in a separate process."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from ...compiler.dynamic.symbols import Extent
from ...compiler.networks import Network
from ...compiler.networks.dynamic.dynamic_inputs import DynamicInputs, Sizes, sizes_text
from ...compiler.tvm_compat import available_cores
from ...compiler.types import WIDE
from ...dataset.measure.worker.scratch import ScratchFolder
from ..deploy.comparison import Compare
from ..deploy.original import comparison_with_original
from ..deploy.rivals.base import Bounds, Form
from ..deploy.rivals.onnx_exporter import OnnxExporter
from ..deploy.rivals.process import save_arrays
from ..deploy.rivals.registry import RIVALS, engine_class
from ..deploy.rivals.taking_part import why_not
from ..deploy.runners import ProcessRunner, RunnerError
from ..deploy.timing import LIMIT_S, TURN_S, time_in_turns

Draw = Callable[[Sizes], tuple[NDArray[Any], ...]]
"""Makes the inputs of the network for values of its symbols."""


@dataclass(frozen=True)
class Entrant:
    """An engine that takes part."""

    name: str
    """Name in results."""
    engine: str
    """Location of its class, as in `rivals.registry.RIVALS`."""
    path: Path | None = None
    """File of the network for an engine that reads one; None exports it if the engine reads ONNX files."""
    sizes: Sequence[Sizes] | None = None
    """Sizes that it can run; None for all."""
    before_s: float = 0.0
    """Seconds that were spent on the network for this engine so far."""


@dataclass(frozen=True)
class EngineStart:
    """Start of an engine."""

    name: str
    version: str = ""
    ready_s: float | None = None
    """Seconds from the network to the end of the first run, including an export or a compilation."""
    file_mb: float | None = None
    """Megabytes of the file that the engine reads."""
    peak_mb: float | None = None
    """Largest resident memory of its process so far."""
    dtype: str = ""
    """Data type that it runs in."""
    error: str = ""
    """Reason why the engine does not take part any longer."""


@dataclass(frozen=True)
class SizeTiming:
    """An engine at one size."""

    name: str
    sizes: Mapping[str, int]
    latency_s: float | None = None
    """Median of the undisturbed turns."""
    first_s: float | None = None
    """Seconds of the first call after the engine ran at another size."""
    compilations: int | None = None
    """Number of compilations because of this size, of an engine that compiles at its calls."""
    max_abs_difference: float | None = None
    disturbed: bool = False
    error: str = ""


class SizesComparison:
    """Engines of one network on this CPU; a context that ends their processes.

    Args:
        network: the network, with inputs for any sizes.
        arguments: arguments of `load_network` from which other processes build it.
        dynamic_arguments: arguments of `dynamic_inputs` that give `dynamic`.
        dynamic: shapes of the inputs.
        draw: makes the inputs for some sizes.
        entrants: the engines; names differ.
        limit_s: seconds that an engine may take to start, to load the network, and for a first call.
        dtype: data type that the engines run in if they can, by which outputs are compared.
    """

    def __init__(
        self,
        network: Network,
        arguments: Mapping[str, Any],
        dynamic_arguments: Mapping[str, Any],
        dynamic: DynamicInputs,
        draw: Draw,
        entrants: Sequence[Entrant],
        *,
        limit_s: float = 120.0,
        dtype: str = WIDE,
    ) -> None:
        self._network, self._dynamic, self._draw = network, dynamic, draw
        self._arguments, self._dynamic_arguments = dict(arguments), dict(dynamic_arguments)
        self._entrants = {one.name: one for one in entrants}
        self._limit_s, self._dtype = limit_s, dtype
        self.starts: dict[str, EngineStart] = {one.name: EngineStart(one.name) for one in entrants}
        self._runners: dict[str, ProcessRunner] = {}
        self._compilations: dict[str, int | None] = {}
        self._compares: dict[str, Compare] = {}
        self._stack = ExitStack()

    def __enter__(self) -> SizesComparison:
        scratch = ScratchFolder()
        self._stack.callback(scratch.cleanup)
        self._folder = scratch.path
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self) -> None:
        """Starts the engines sequentially, and compares the outputs of their first run."""
        exported: _Exported | None = None
        for entrant in self._entrants.values():
            sent = [self._arguments, self._dynamic_arguments] if entrant.path is None else None
            kind, exports = engine_class(entrant.engine), _needs_export(entrant)
            if reason := why_not(kind, self._network, sent, exports=exports):
                self._leave_out(entrant.name, reason)
            elif exports:
                exported = exported or self._exported()
                if exported.error:
                    self._leave_out(entrant.name, exported.error)
                else:
                    before_s = entrant.before_s + exported.seconds
                    self._start(replace(entrant, path=exported.path, before_s=before_s))
            else:
                self._start(entrant)

    def at(
        self, sizes: Sizes, *, repeats: int = 10, seconds: float = TURN_S, limit_s: float = LIMIT_S
    ) -> list[SizeTiming]:
        """Times the engines that run these sizes in turns, after a comparison of their outputs.

        See `time_in_turns` for the other arguments. An engine that fails has a row with the reason, and no
        further one.
        """
        inputs = self._saved(sizes)
        compare = self._compare(sizes)
        rows = {
            name: self._bound(name, sizes, inputs, compare)
            for name in list(self._runners)
            if (able := self._entrants[name].sizes) is None or dict(sizes) in [dict(one) for one in able]
        }
        timed = [name for name, row in rows.items() if not row.error]
        found = [self._runners[name] for name in timed]
        timings = time_in_turns(found, repeats=repeats, seconds=seconds, limit_s=limit_s)
        for name, runner, timing in zip(timed, found, timings, strict=True):
            latency_s = statistics.median(timing.samples_s) if timing.samples_s else None
            rows[name] = replace(
                rows[name], latency_s=latency_s, disturbed=timing.disturbed, error=timing.error
            )
            self.starts[name] = replace(self.starts[name], peak_mb=runner.peak_mb)
            if timing.error:
                self._leave_out(name, timing.error)
        return list(rows.values())

    def _start(self, entrant: Entrant) -> None:
        """Starts the process of an engine, which loads the network and runs it once."""
        name, path = entrant.name, entrant.path
        first = self._dynamic.traced if entrant.sizes is None else entrant.sizes[0]
        by_module = engine_class(entrant.engine).form is Form.MODULE
        try:
            self._runners[name] = runner = ProcessRunner(
                name,
                entrant.engine,
                threads=available_cores(),
                inputs=self._saved(first),
                folder=self._folder / name,
                network=self._arguments if by_module else None,
                dtype=self._dtype,
                path=None if path is None else path.absolute(),
                limit_s=self._limit_s,
                bounds=bounds_of(self._dynamic, self._draw(first)),
            )
            self._stack.callback(runner.close)
            runner.wait()
            loaded = runner.load()
            self.starts[name] = EngineStart(
                name,
                loaded.version,
                entrant.before_s + loaded.ready_s,
                None if path is None else megabytes(path),
                dtype=loaded.dtype,
            )
            self._compilations[name] = loaded.compilations
            check = self._compare(first)(loaded.outputs)
        except (RunnerError, ValueError) as error:
            self._leave_out(name, str(error))
            return
        if not check.agrees:
            self._leave_out(name, f"other outputs at {sizes_text(first)}: {check.describe()}")

    def _exported(self) -> _Exported:
        """Writes the ONNX file with symbolic extents."""
        path, inputs = self._folder / "network.onnx", self._saved(self._dynamic.traced)
        exporter = OnnxExporter(path, inputs, self._arguments, self._dynamic_arguments)
        try:
            return _Exported(path, exporter.export(self._limit_s))
        except RunnerError as error:
            return _Exported(path, error=str(error))

    def _bound(self, name: str, sizes: Sizes, inputs: Path, compare: Compare) -> SizeTiming:
        row = SizeTiming(name, dict(sizes))
        try:
            bound = self._runners[name].bind(inputs)
            check = compare(bound.outputs)
        except (RunnerError, ValueError) as error:
            self._leave_out(name, str(error))
            return replace(row, error=str(error))
        if bound.compilations is not None:
            row = replace(row, compilations=bound.compilations - (self._compilations[name] or 0))
            self._compilations[name] = bound.compilations
        return replace(
            row,
            first_s=bound.first_s,
            max_abs_difference=check.max_abs_difference,
            error="" if check.agrees else f"other outputs: {check.describe()}",
        )

    def _leave_out(self, name: str, reason: str) -> None:
        """Ends an engine, whose process may still run."""
        self.starts[name] = replace(self.starts[name], error=reason)
        if runner := self._runners.pop(name, None):
            runner.close()

    def _saved(self, sizes: Sizes) -> Path:
        path = self._folder / f"inputs-{sizes_text(sizes)}.npz"
        if not path.exists():
            save_arrays(path, self._draw(sizes))
        return path

    def _compare(self, sizes: Sizes) -> Compare:
        if (where := sizes_text(sizes)) not in self._compares:
            network = self._network.with_inputs(self._draw(sizes))
            self._compares[where] = comparison_with_original(network, self._dtype)
        return self._compares[where]


class _Exported(NamedTuple):
    """ONNX file of the network."""

    path: Path
    seconds: float = 0.0
    error: str = ""


def _needs_export(entrant: Entrant) -> bool:
    return engine_class(entrant.engine).form is Form.ONNX and entrant.path is None


def rivals_named(names: Sequence[str], onnx_path: Path | None) -> list[Entrant]:
    """Rivals of `foretune tune rivals=[...]` as entrants; `onnx_path` is the network's own ONNX file."""
    kinds = {name: engine_class(RIVALS[name]) for name in names}
    return [
        Entrant(kind.title, RIVALS[name], onnx_path if kind.form is Form.ONNX else None)
        for name, kind in kinds.items()
    ]


def bounds_of(dynamic: DynamicInputs, inputs: Sequence[NDArray[Any]]) -> list[Bounds]:
    """Shapes of the inputs with the smallest and the largest value of symbolic extents."""

    def bound(extent: int | Extent) -> int | tuple[int, int]:
        if isinstance(extent, int):
            return extent
        symbol = dynamic.symbols[extent.symbol]
        return extent.at(symbol.low), extent.at(symbol.high)

    return [
        array.shape if shape is None else tuple(map(bound, shape))
        for shape, array in zip(dynamic.shapes, inputs, strict=True)
    ]


def megabytes(path: Path) -> float:
    """Size of a file together with the file of its weights, whose name begins with its own."""
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")) / 1e6
