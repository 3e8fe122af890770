"""Trial of a tuned network: compile it, check it against the original, export it and time it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import tvm
from rich.console import Console
from tvm.support.cc import get_cc
from tvm.target import Target

from ...compiler.networks import LoweredNetwork, Network
from ...compiler.targets import is_cpu
from ...compiler.types import WIDE
from ..database.predicted_schedules import PredictedSchedules
from ..database.tuning_database import TuningDatabase
from ..run.profiling import StageClock
from ..run.result import (
    NOT_BUILT,
    TUNED,
    UNTUNED,
    Agreement,
    Contestant,
    NetworkProfile,
    TaskResult,
    untuned_by_tasks_s,
)
from .agreement import measure_agreement
from .comparison import Compare, Comparison, CompiledForm
from .compile import CompiledNetwork, compile_network
from .fresh_process import FreshProcessError, time_in_fresh_process
from .original import comparison_with_original
from .outputs import OutputCheck, compare_narrow_outputs
from .peak import fma_peak_gflops
from .rivals.base import CPU

if TYPE_CHECKING:
    from ..run.config import TuneConfig


@dataclass(frozen=True)
class NetworkTimings:
    """Timings of the whole network; empty if it does not run here."""

    contestants: list[Contestant] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    check: OutputCheck | None = None
    exported: list[Contestant] = field(default_factory=list)
    profile: NetworkProfile | None = None
    peak_gflops: float | None = None
    agreement: Agreement | None = None
    """Agreement with the float32 network, for a network in another data type."""
    unbuildable: tuple[str, ...] = ()
    """Tasks that run without their schedule, because TVM cannot build code for it."""


@dataclass(frozen=True)
class Tuned:
    """A network whose tasks are tuned."""

    relax_mod: tvm.IRModule
    """The network with the alternatives that were selected."""
    lowered: LoweredNetwork
    """The network without alternatives, for the untuned baseline."""
    network: Network
    target: Target
    database: TuningDatabase
    results: Sequence[TaskResult]


class Trial:
    """Trial of one network of a run."""

    def __init__(
        self,
        config: TuneConfig,
        console: Console,
        watch: StageClock,
        elapsed_s: Callable[[], float],
        predicted: PredictedSchedules | None = None,
    ) -> None:
        """`elapsed_s` returns seconds since the start; `predicted` serves a run without measurements."""
        self.config = config
        self.console = console
        self.watch = watch
        self.elapsed_s = elapsed_s
        self.predicted = predicted

    def timed(self, tuned: Tuned) -> NetworkTimings:
        """Timings that the executor supports."""
        config = self.config
        if config.executor.kind == "none" and config.export is not None:
            self._export_unchecked(config.export, tuned)
        elif config.executor.kind == "local":
            return self._compare(tuned)
        else:
            self.console.print(
                f"executor={config.executor.kind}: the network is not timed, since it does not run here"
            )
        return NetworkTimings()

    def _compile(self, tuned: Tuned, names: Sequence[str]) -> list[CompiledForm]:
        """The forms with these names."""
        # Importing the plots lasts a second, so a thread does it while TVM compiles.
        Thread(target=import_module, args=("..report.write", __package__), daemon=True).start()
        with self.watch.stage("compile"), self.console.status("compiling the network"):
            forms = [CompiledForm(TUNED, self._compiled(tuned), self.elapsed_s())]
            if UNTUNED in names:
                began = time.perf_counter()
                untuned = compile_network(tuned.lowered.relax_mod, tuned.target)
                ready_s = tuned.lowered.lowering_s + time.perf_counter() - began
                forms.append(CompiledForm(UNTUNED, untuned, ready_s))
        return forms

    def _compiled(self, tuned: Tuned) -> CompiledNetwork:
        # The database may hold slower schedules for such tasks from earlier runs.
        unscheduled = {
            task.workload_hash
            for task in tuned.results
            if task.tuned_latency_s is None and not task.predicted
        }
        tasks = [task.workload_hash for task in tuned.results]
        schedules = tuned.database.best_schedules(tasks)
        if self.predicted is not None:
            schedules = self.predicted.behind(schedules, tasks)
        return compile_network(tuned.relax_mod, tuned.target, schedules, unscheduled=unscheduled)

    def _export_unchecked(self, library: Path, tuned: Tuned) -> None:
        """Writes the library of a network that cannot run on this machine."""
        with self.watch.stage("compile"), self.console.status("compiling the network"):
            compiled = self._compiled(tuned)
        for name in compiled.unbuildable:
            self.console.print(f"{name} runs untuned: {NOT_BUILT}", style="yellow", markup=False)
        with self.watch.stage("export"), self.console.status(f"writing {library}"):
            compiled.export(library)
        self.console.print("the exported network was neither run nor checked here", style="yellow")

    def _compare(self, tuned: Tuned) -> NetworkTimings:
        """Compiles, checks and exports the tuned network; times it and its contestants in turns."""
        config, network, target = self.config, tuned.network, tuned.target
        on_cpu = is_cpu(target)
        if on_cpu and get_cc() is None:
            self.console.print(
                "no C++ compiler (install g++): the tuned network is timed in this process, where other "
                "threads may slow it down",
                style="yellow",
            )
        # Without a schedule, nothing runs on a GPU.
        names = [TUNED, UNTUNED] if on_cpu and self._time_for_untuned(tuned.results) else [TUNED]
        with Comparison(
            network,
            config.network_arguments,
            names,
            config.rivals,
            device=CPU if on_cpu else target.kind.name,
            limit_s=config.rival_limit_s,
            dtype=config.lowering.dtype,
        ) as comparison:
            comparison.start()  # imports run during the compilation
            forms = self._compile(tuned, names)
            compiled = forms[0].compiled
            with self.watch.stage("link"), self.console.status("generating code"):
                comparison.enter(forms)  # rivals import during the check
            with self.watch.stage("check outputs"):
                compare, agreement = self._comparison_with_original(network, compiled)
                check = compare(compiled(*network.inputs))
            with self.watch.stage("start the rivals"), self.console.status("starting the rivals"):
                comparison.prepare(compare)
            with self.watch.stage("time the network"), self.console.status("timing the network in turns"):
                contestants = comparison.time(config.timing_repeats)
        exported = self._export(config.export, compiled, network, on_cpu) if check.agrees else []
        timed = NetworkTimings(
            contestants,
            comparison.left_out,
            check,
            exported,
            agreement=agreement,
            unbuildable=compiled.unbuildable,
        )
        if not on_cpu:
            return timed
        with self.watch.stage("profile the network"), self.console.status("profiling the network"):
            return replace(
                timed, profile=compiled.profile(*network.inputs), peak_gflops=fma_peak_gflops(target)
            )

    def _comparison_with_original(
        self, network: Network, compiled: CompiledNetwork
    ) -> tuple[Compare, Agreement | None]:
        """Comparison with the original's outputs, and agreement of another data type with float32."""
        dtype = self.config.lowering.dtype
        if dtype == WIDE:
            return comparison_with_original(network), None
        agreement, differences = measure_agreement(network, dtype, compiled)
        compare = partial(
            compare_narrow_outputs,
            network.reference_outputs(),
            rival_differences=differences,
            dtype=dtype,
        )
        return compare, agreement

    def _export(
        self, library: Path | None, compiled: CompiledNetwork, network: Network, on_cpu: bool
    ) -> list[Contestant]:
        """Writes the library of the tuned network, if requested, and times it as users run it."""
        if library is None:
            return []
        with self.watch.stage("export"), self.console.status(f"writing {library}"):
            compiled.export(library)
        if not on_cpu:
            return []
        with self.watch.stage("time the export"), self.console.status("timing the export"):
            try:
                return time_in_fresh_process(library, network.inputs)
            except FreshProcessError as error:  # the report is still worth having
                self.console.print(str(error), style="yellow", markup=False)
                return []

    def _time_for_untuned(self, results: Sequence[TaskResult]) -> bool:
        """Whether `untuned_limit_s` permits timing the untuned network; an unknown latency is too long."""
        limit_s, takes_s = self.config.untuned_limit_s, untuned_by_tasks_s(results)
        return limit_s is None or (takes_s is not None and takes_s <= limit_s)
