"""Tuning run of a network with dynamic shapes: one library for all sizes in the ranges."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import torch
import tvm
from numpy.typing import NDArray
from rich.console import Console
from tvm.target import Target

from ... import __version__
from ...compiler.codegen.argument_checks import marked_internal
from ...compiler.codegen.passes import improve_code
from ...compiler.codegen.plain_schedules import plainly_scheduled
from ...compiler.dynamic.symbols import DynamicShapeError
from ...compiler.networks import Network, load_network
from ...compiler.networks.dynamic.dynamic_inputs import DynamicInputs, dynamic_inputs
from ...compiler.networks.dynamic.lowering import scheduled, to_symbolic_relax
from ...compiler.networks.inputs import example_inputs
from ...compiler.targets import is_cpu
from ...compiler.tvm_compat import parse_target, runs_here
from ...errors import UserError, first_line
from ...terminal import say
from ...wording import counted
from ..deploy.compile import CompiledNetwork, NetworkBuildError, build_context, how_to_run
from ..deploy.description import describe, with_description
from ..deploy.original import Original
from ..deploy.outputs import OutputFormError
from ..run.config import TuneConfig
from ..run.profiling import StageClock
from .kernel_times import kernel_times
from .result import PLAIN, DynamicResult, SizeResult
from .settings import check_dynamic, ignored
from .sizes import sizes_to_compare

TIMED_RUNS = 5
"""Runs of each size that are timed, after the first one."""


class DynamicOutputError(UserError, RuntimeError):
    """The compiled network has other outputs than the original at some size."""


class DynamicRun:
    """Run of one network."""

    def __init__(self, config: TuneConfig, console: Console, started: float) -> None:
        self.config, self.console, self.started = config, console, started
        self.watch = StageClock()

    def run(self) -> DynamicResult:
        """Compiles the network, compares it with the original at several sizes, and exports it.

        Raises UserError.
        """
        check_dynamic(self.config)
        config, target = self.config, parse_target(self.config.target)
        if not is_cpu(target):
            raise DynamicShapeError(
                f"target={target.kind.name}: dynamic shapes need a CPU; use target=llvm, or fixed shapes"
            )
        config.check_for(target)
        for notice in ignored(config):
            say(self.console, f"dynamic shapes: {notice}")
        dynamic = dynamic_inputs(config.network, config.inputs, config.batch, config.dims)
        with self.watch.stage("load"):
            network = load_network(
                config.network, inputs=dynamic.at(dynamic.traced), seed=config.seed, kwargs=config.kwargs
            )
        fused = to_symbolic_relax(network, dynamic, target, config.lowering, self.watch.stage)
        with self.watch.stage("choose kernels"), kernel_times(config, target, self.console) as times:
            mod, tasks = scheduled(fused, dynamic, target, times)
        try:
            compiled, sizes = self._compared(network, dynamic, target, mod)
        except DynamicOutputError as error:
            self.console.print(
                f"{error}; trying plain schedules", style="yellow", markup=False, soft_wrap=True
            )
            tasks = [{**task, "kind": PLAIN} for task in tasks]
            compiled, sizes = self._compared(network, dynamic, target, plainly_scheduled(fused))
        return self._reported(network, dynamic, compiled, sizes, tasks)

    def _compared(
        self, network: Network, dynamic: DynamicInputs, target: Target, mod: tvm.IRModule
    ) -> tuple[CompiledNetwork, list[SizeResult]]:
        """The compiled network, and its outputs at several sizes if it runs here.

        Raises DynamicOutputError and NetworkBuildError.
        """
        with self.watch.stage("compile"), self.console.status("compiling the network"):
            compiled = compile_symbolic(mod, dynamic, target, network.name)
        if not runs_here(target):
            self.console.print(
                "the library does not run here: its outputs are not compared with the original",
                style="yellow",
            )
            return compiled, []
        with self.watch.stage("check outputs"), self.console.status("comparing outputs"):
            sizes = sizes_to_compare(dynamic.symbols)
            return compiled, [self._at(network, dynamic, compiled, one) for one in sizes]

    def _at(
        self, network: Network, dynamic: DynamicInputs, compiled: CompiledNetwork, sizes: Mapping[str, int]
    ) -> SizeResult:
        """Compares outputs at one size. Raises DynamicOutputError."""
        arrays = example_inputs(dynamic.at(sizes), self.config.seed)
        where = ", ".join(f"{name}={size}" for name, size in sizes.items())
        original = Original(network.with_inputs(arrays))
        try:
            check = original.check(compiled)
            fault = "" if check.agrees else original.describe(check)
        except OutputFormError as error:
            fault = first_line(error)
        if fault:
            raise DynamicOutputError(f"network={network.name} at {where}: {fault}; tune it for fixed shapes")
        return SizeResult(sizes, check.max_abs_difference, check.tolerance, _median_s(compiled, arrays))

    def _reported(
        self,
        network: Network,
        dynamic: DynamicInputs,
        compiled: CompiledNetwork,
        sizes: Sequence[SizeResult],
        tasks: Sequence[Mapping[str, Any]],
    ) -> DynamicResult:
        """Exports the library, and prints and writes the result."""
        config = self.config
        if config.export is not None:
            with self.watch.stage("export"), self.console.status(f"writing {config.export}"):
                compiled.export(config.export)
        result = DynamicResult(
            network=network.name,
            target=str(compiled.target),
            symbols={one.name: (one.low, one.high) for one in dynamic.symbols.values()},
            sizes=tuple(sorted(sizes, key=lambda one: tuple(one.sizes.values()))),
            tasks=tuple(tasks),
            exported=None if config.export is None else str(config.export),
            total_s=time.time() - self.started,
            stage_s=self.watch.seconds,
            versions={"foretune": __version__, "tvm": tvm.__version__, "torch": torch.__version__},
            started_at=datetime.fromtimestamp(self.started, timezone.utc).isoformat(timespec="seconds"),
        )
        self.console.print(result.table())
        ranges = ", ".join(map(str, dynamic.symbols.values()))
        kernels = f"{counted(len(tasks), 'task')} of symbolic extents"
        plain = f", {len(result.plain)} of them with plain schedules" if result.plain else ""
        say(self.console, f"{network.name} with {ranges}: {kernels}{plain}")
        say(self.console, f"wrote {result.write(config.folder)}")
        if config.export is not None:
            for line in how_to_run(config.export, compiled.target):
                say(self.console, line)
        return result


def compile_symbolic(mod: tvm.IRModule, dynamic: DynamicInputs, target: Target, name: str) -> CompiledNetwork:
    """Compiles a module whose functions are scheduled. Raises NetworkBuildError."""
    improve_code()
    mod = marked_internal(mod)
    description = describe(mod, target, {}, dynamic)
    described = mod if description is None else with_description(mod, description)
    try:
        with build_context(target):
            executable = tvm.compile(described, target=target)
    except Exception as error:  # TVM raises several kinds
        raise NetworkBuildError(
            f"network={name}: TVM cannot build it with symbolic extents: {first_line(error)}; tune it for "
            "fixed shapes"
        ) from error
    return CompiledNetwork(executable, target, scheduled=(), unscheduled=(), task_of={})


def _median_s(compiled: CompiledNetwork, arrays: Sequence[NDArray[Any]]) -> float:
    """Median latency of a few runs, in seconds."""
    run = compiled.bind(*arrays)
    run()
    times = []
    for _ in range(TIMED_RUNS):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return statistics.median(times)
