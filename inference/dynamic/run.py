"""Tuning run of a network with dynamic shapes: one library for all sizes in the ranges."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timezone
from typing import Any

import torch
import tvm
from numpy.typing import NDArray
from rich.console import Console
from tvm import relax
from tvm.target import Target

from ... import __version__
from ...compiler.codegen.argument_checks import marked_internal
from ...compiler.codegen.passes import improve_code
from ...compiler.codegen.plain_schedules import plainly_scheduled
from ...compiler.codegen.repeated_shapes import without_repeated_shapes
from ...compiler.dynamic.symbols import BEYOND
from ...compiler.networks import Network
from ...compiler.networks.dynamic.beyond import with_beyond
from ...compiler.networks.dynamic.dynamic_inputs import DynamicInputs, sizes_text
from ...compiler.networks.dynamic.lowering import for_any_size, scheduled, to_symbolic_relax
from ...compiler.networks.dynamic.solved_symbols import with_solved_symbols
from ...compiler.tvm_compat import parse_target, runs_here
from ...compiler.types import WIDE
from ...errors import UserError, first_line
from ...terminal import say
from ...wording import counted
from ..deploy.arrays import flatten
from ..deploy.compile import CompiledNetwork, NetworkBuildError, build_context
from ..deploy.description import MAIN, describe, with_description
from ..deploy.outputs import OutputFormError
from ..run.config import ALLOW, TuneConfig
from ..run.profiling import StageClock
from ..run.reporting import how_to_run
from .families import PLAIN
from .kernel_times import kernel_times, kernel_turn
from .loading import load_dynamic
from .originals import OriginalAt, originals
from .outlook import require_cpu
from .result import DynamicResult, SizeResult
from .rivals import RivalTimings, time_rivals
from .settings import asked_rivals, check_dynamic, ignored

TIMED_RUNS = 5
"""Runs of each size that are timed, after the first one."""

TIMED_S = 0.2
"""Seconds of runs of one size after which no further one is timed."""


class DynamicOutputError(UserError, RuntimeError):
    """The compiled network has other outputs than the original at some size."""


class DynamicRun:
    """Run of one network."""

    def __init__(self, config: TuneConfig, console: Console, started: float) -> None:
        self.config, self.console, self.started = config, console, started
        self.watch = StageClock()
        self._waited_s = 0.0

    def run(self) -> DynamicResult:
        """Compiles the network, compares it with the original at several sizes, and exports it.

        Raises UserError.
        """
        check_dynamic(self.config)
        config, target = self.config, parse_target(self.config.target)
        require_cpu(target)
        config.check_for(target)
        for notice in ignored(config):
            say(self.console, f"dynamic shapes: {notice}")
        with kernel_turn(config, target, self.console) as self._waited_s:
            return self._tuned(target)

    def _tuned(self, target: Target) -> DynamicResult:
        """`run` with settings that are checked, while no other run measures for the same database."""
        config = self.config
        with self.watch.stage("load"):
            network, dynamic = load_dynamic(
                config.network, config.inputs, config.batch, config.dims, config.seed, config.kwargs
            )
        fused = to_symbolic_relax(network, dynamic, target, config.lowering, self.watch.stage)
        measuring = kernel_times(config, target, self.console, self.watch.stage)
        with self.watch.stage("choose kernels"), measuring as times:
            mod, tasks = scheduled(fused, dynamic, target, times, config.lowering)
        beyond = None
        if config.beyond == ALLOW:
            with self.watch.stage("code for other sizes"):
                beyond = for_any_size(network, dynamic, target, config.lowering)
        compared: AbstractContextManager[list[OriginalAt]] = nullcontext([])
        if runs_here(target):
            dtype = config.lowering.dtype
            compared = originals(network, dynamic, config.seed, dtype, beyond=beyond is not None)
        with compared as places:
            try:
                compiled, sizes = self._compared(network, dynamic, target, mod, tasks, beyond, places)
            except DynamicOutputError as error:
                self.console.print(
                    f"{error}; trying plain schedules", style="yellow", markup=False, soft_wrap=True
                )
                tasks = [{**task, "kind": PLAIN, "tables": ()} for task in tasks]
                plain = plainly_scheduled(fused)
                compiled, sizes = self._compared(network, dynamic, target, plain, tasks, beyond, places)
        return self._reported(network, dynamic, compiled, sizes, tasks)

    def _compared(
        self,
        network: Network,
        dynamic: DynamicInputs,
        target: Target,
        mod: tvm.IRModule,
        tasks: Sequence[Mapping[str, Any]],
        beyond: tvm.IRModule | None,
        places: Sequence[OriginalAt],
    ) -> tuple[CompiledNetwork, list[SizeResult]]:
        """The compiled network, and its outputs at several sizes if it runs here.

        `beyond` is its module for sizes outside of the ranges, if it has one. `places` are the sizes, none on
        another machine. Raises DynamicOutputError, NetworkBuildError, and the errors of `originals`.
        """
        if beyond is not None:
            mod = with_beyond(mod, beyond)
        with self.watch.stage("compile"), self.console.status("compiling the network"):
            compiled = compile_symbolic(mod, dynamic, target, network.name, tasks)
            if places:
                compiled.link()
        if not places:
            self.console.print(
                "the library does not run here: its outputs are not compared with the original",
                style="yellow",
            )
        with self.watch.stage("check outputs"), self.console.status("comparing outputs"):
            return compiled, [_compared_at(network.name, compiled, one) for one in places]

    def _reported(
        self,
        network: Network,
        dynamic: DynamicInputs,
        compiled: CompiledNetwork,
        sizes: Sequence[SizeResult],
        tasks: Sequence[Mapping[str, Any]],
    ) -> DynamicResult:
        """Exports the library, and prints and writes the result."""
        from .page import write_page  # its plots take a third of a second to import

        config = self.config
        if config.export is not None:
            with self.watch.stage("export"), self.console.status(f"writing {config.export}"):
                compiled.export(config.export)
        rivals = self._rivals(network, dynamic, compiled)
        result = DynamicResult(
            network=network.name,
            target=str(compiled.target),
            symbols=dynamic.ranges,
            sizes=tuple(sorted(sizes, key=lambda one: (one.beyond, *one.sizes.values()))),
            tasks=tuple(tasks),
            exported=None if config.export is None else str(config.export),
            total_s=time.time() - self.started,
            stage_s=self.watch.seconds,
            versions={"foretune": __version__, "tvm": tvm.__version__, "torch": torch.__version__},
            started_at=datetime.fromtimestamp(self.started, timezone.utc).isoformat(timespec="seconds"),
            rivals=rivals,
        )
        self.console.print(result.table())
        if rivals.engines:
            self.console.print(rivals.table())
            for remark in rivals.remarks():
                say(self.console, remark)
        ranges = ", ".join(map(str, dynamic.symbols.values()))
        kernels = f"{counted(len(tasks), 'task')} of symbolic extents"
        plain = f", {len(result.plain)} of them with plain schedules" if result.plain else ""
        say(self.console, f"{network.name} with {ranges}: {kernels}{plain}")
        paths = result.write(config.folder), write_page(result, config.folder)
        say(self.console, f"wrote {' and '.join(map(str, paths))}")
        if config.export is not None:
            for line in how_to_run(config.export, compiled.target):
                say(self.console, line)
        return result

    def _rivals(self, network: Network, dynamic: DynamicInputs, compiled: CompiledNetwork) -> RivalTimings:
        """Latencies of the rivals that the settings name."""
        if not asked_rivals(self.config) or not runs_here(compiled.target):
            return RivalTimings()
        ready_s = time.time() - self.started - self._waited_s
        with self.watch.stage("time rivals"), self.console.status("timing other engines"):
            try:
                return time_rivals(self.config, network, dynamic, compiled, ready_s)
            except NetworkBuildError as error:  # without a linker, the library has no process of its own
                say(self.console, f"rivals= are not timed: {first_line(error)}")
                return RivalTimings()


def compile_symbolic(
    mod: tvm.IRModule,
    dynamic: DynamicInputs,
    target: Target,
    name: str,
    tasks: Sequence[Mapping[str, Any]] = (),
) -> CompiledNetwork:
    """Compiles a module whose functions are scheduled. Raises NetworkBuildError.

    `tasks` are its tasks of symbolic extents, for the description in the library.
    """
    improve_code()
    mod = marked_internal(mod)
    description = describe(mod, target, {}, dynamic, tasks)
    mod = with_solved_symbols(mod, dynamic, (MAIN, BEYOND))
    described = mod if description is None else with_description(mod, description)
    try:
        with build_context(target):
            pipeline = tvm.transform.Sequential([relax.get_pipeline("default"), without_repeated_shapes()])
            executable = tvm.compile(described, target=target, relax_pipeline=pipeline)
    except Exception as error:  # TVM raises several kinds
        raise NetworkBuildError(
            f"network={name}: TVM cannot build it with symbolic extents: {first_line(error)}; tune it for "
            "fixed shapes"
        ) from error
    return CompiledNetwork(executable, target, scheduled=(), unscheduled=(), task_of={})


def _compared_at(name: str, compiled: CompiledNetwork, place: OriginalAt) -> SizeResult:
    """Compares outputs at one size, and times a few runs. Raises DynamicOutputError."""
    original = place.original()
    first_s: list[float] = []

    def outputs(*inputs: NDArray[Any]) -> list[NDArray[Any]]:
        call = compiled.bind(*inputs, entry=place.entry)
        began = time.perf_counter()
        found = flatten(call())
        first_s.append(time.perf_counter() - began)
        return [tensor.numpy() for tensor in found]

    try:
        check = original.check(outputs)
        fault = "" if check.agrees else original.describe(check)
    except OutputFormError as error:
        fault = first_line(error)
    if fault:
        where = sizes_text(place.sizes)
        remedy = "tune it for fixed shapes" if original.dtype == WIDE else f"use lowering.dtype={WIDE}"
        raise DynamicOutputError(f"network={name} at {where}: {fault}; {remedy}")
    median_s = _median_s(compiled.bind(*original.inputs[0], entry=place.entry), first_s[0])
    beyond = place.entry == BEYOND
    return SizeResult(place.sizes, check.max_abs_difference, check.tolerance, median_s, beyond)


def _median_s(run: Callable[[], Any], first_s: float) -> float:
    """Median latency of a few runs, in seconds; the latency of the first run if that took `TIMED_S`."""
    times: list[float] = [first_s] if first_s >= TIMED_S else []
    while len(times) < TIMED_RUNS and sum(times) < TIMED_S:
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return statistics.median(times)
