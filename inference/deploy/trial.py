"""Trial of a tuned network: compile it, check it against the original, export it and time it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import tvm
from rich.console import Console
from tvm.support.cc import get_cc
from tvm.target import Target

from ...compiler.codegen.objects import ObjectFiles
from ...compiler.networks import LoweredNetwork, Network
from ...compiler.targets import is_cpu
from ...compiler.tvm_compat import runs_here
from ...compiler.types import WIDE
from ...terminal import say
from ..database.predicted_schedules import FurtherSchedules
from ..database.tuning_database import TuningDatabase
from ..run.profiling import StageClock
from ..run.result import (
    NOT_BUILT,
    TUNED,
    UNTUNED,
    WRONG,
    Agreement,
    Contestant,
    NetworkProfile,
    TaskResult,
    by_tasks_s,
)
from ..run.written_library import WrittenLibrary
from .agreement import measure_agreement
from .comparison import Comparison, CompiledForm, comparison_of
from .compile import CompiledNetwork, compile_network, workload_hashes
from .fresh_process import FreshProcessError, time_in_fresh_process
from .original import Original
from .outputs import OutputCheck
from .peak import fma_peak_gflops
from .wrong_schedules import without_wrong_schedules

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
    unscheduled: Mapping[str, str] = field(default_factory=dict)
    """Reason for each task that runs without its schedule: NOT_BUILT or WRONG."""
    library_s: float | None = None
    """Seconds from the start of the run until its network could be used; None if its outputs differ."""
    results: Sequence[TaskResult] = ()
    """Results of the tasks, complete."""


@dataclass(frozen=True)
class Tuned:
    """A network whose tasks are tuned, possibly not to the end."""

    relax_mod: tvm.IRModule
    """The network with the alternatives that were selected."""
    lowered: LoweredNetwork
    """The network without alternatives, for the untuned baseline."""
    network: Network
    target: Target
    database: TuningDatabase
    results: Sequence[TaskResult]
    original: Original
    plain: Collection[str] = ()
    """Workload hashes of tasks that run with a plain schedule for lack of another one."""


class Trial:
    """Trial of one network of a run."""

    def __init__(
        self,
        config: TuneConfig,
        console: Console,
        watch: StageClock,
        elapsed_s: Callable[[], float],
        predicted: FurtherSchedules | None = None,
        objects: ObjectFiles | None = None,
    ) -> None:
        """Prepares the trial.

        `elapsed_s` returns seconds since the start; `predicted` has schedules of unmeasured tasks, `objects`
        the object files of programs.
        """
        self.config = config
        self.console = console
        self.watch = watch
        self.elapsed_s = elapsed_s
        self.predicted = predicted
        self.objects = ObjectFiles() if objects is None else objects
        self.written: list[WrittenLibrary] = []
        """Libraries that were written to `config.export`, each of which replaced the one before."""
        self.comparison: Comparison | None = None
        """Comparison that the caller opened before, and closes if it is not used."""

    def timed(
        self, tuned: Tuned, complete: Callable[[], Sequence[TaskResult]] | None = None
    ) -> NetworkTimings:
        """Timings that the executor supports. `complete` returns the results when the library is written."""
        config, complete = self.config, complete or (lambda: tuned.results)
        # Importing the plots lasts a second, so a thread does it while TVM compiles.
        Thread(target=import_module, args=("..report.write", __package__), daemon=True).start()
        if config.executor.kind == "local":
            return self._compare(tuned, complete)
        timed = NetworkTimings()
        if config.executor.kind == "none" and config.export is not None:
            timed = self._export_alone(config.export, tuned)
        else:
            self.console.print(
                f"executor={config.executor.kind}: the network is not timed, since it does not run here"
            )
        return replace(timed, results=complete())

    def _tuned_form(self, tuned: Tuned) -> CompiledForm:
        with self.watch.stage("compile"), self.console.status("compiling the network"):
            compiled = self.compiled(tuned)
        with self.watch.stage("link"), self.console.status("generating code"):
            compiled.link()
        return CompiledForm(TUNED, compiled, self.elapsed_s())

    def _untuned_form(self, tuned: Tuned) -> CompiledForm:
        with self.watch.stage("compile untuned"), self.console.status("compiling the untuned network"):
            began = time.perf_counter()
            untuned = compile_network(tuned.lowered.relax_mod, tuned.target, kept=self.objects)
            ready_s = tuned.lowered.lowering_s + time.perf_counter() - began
            return CompiledForm(UNTUNED, untuned, ready_s)

    def compiled(self, tuned: Tuned, without: Collection[str] = ()) -> CompiledNetwork:
        """The network, with plain loops for the workloads in `without`."""
        # The database may hold slower schedules for tasks without a latency from earlier runs.
        unscheduled = {*without, *_without_latency(tuned.results)}
        called = {*workload_hashes(tuned.relax_mod).values()}  # without alternatives that are not taken
        tasks = [task.workload_hash for task in tuned.results if task.workload_hash in called]
        schedules = tuned.database.best_schedules(tasks)
        if self.predicted is not None:
            schedules = self.predicted.behind(schedules, tasks)
        plain = {*tuned.plain}.difference(without)
        return compile_network(
            tuned.relax_mod,
            tuned.target,
            schedules,
            unscheduled=unscheduled,
            plain=plain,
            kept=self.objects,
        )

    def checked(
        self, tuned: Tuned, compiled: CompiledNetwork
    ) -> tuple[CompiledNetwork, OutputCheck, dict[str, str]]:
        """The network whose outputs agree, if there is one, and a reason for each task without its schedule.

        Schedules that change the outputs are left out, on a CPU, where tasks run without a schedule, too.
        """
        check = tuned.original.check(compiled)
        if not check.agrees and compiled.from_earlier_run:
            compiled.forget()
            self.objects.distrust()  # so that only a schedule can be wrong
            compiled = self.compiled(tuned)
            check = tuned.original.check(compiled)
        reasons = dict.fromkeys(compiled.unbuildable, NOT_BUILT)
        if check.agrees or not is_cpu(tuned.target):
            return compiled, check, reasons
        names = {task.workload_hash: task.name for task in tuned.results}
        scheduled = [one for one, name in names.items() if name in compiled.scheduled]
        found = without_wrong_schedules(
            scheduled,
            lambda without: self.compiled(tuned, without),
            lambda other: tuned.original.check(other).agrees,
        )
        if found is None:
            return compiled, check, reasons
        corrected, wrong = found
        reasons |= {names[workload]: WRONG for workload in wrong}
        for workload in wrong:
            self.console.print(f"{names[workload]} runs untuned: {WRONG}", style="yellow", markup=False)
        return corrected, tuned.original.check(corrected), reasons

    def _export_alone(self, library: Path, tuned: Tuned) -> NetworkTimings:
        """Writes the library of a network that is not timed; compares its outputs first if it runs here."""
        with self.watch.stage("compile"), self.console.status("compiling the network"):
            compiled = self.compiled(tuned)
        timed = NetworkTimings(unscheduled=dict.fromkeys(compiled.unbuildable, NOT_BUILT))
        if runs_here(tuned.target):
            with self.watch.stage("check outputs"), self.console.status("comparing outputs"):
                compiled, check, reasons = self.checked(tuned, compiled)
            timed = NetworkTimings(check=check, unscheduled=reasons)
            if not check.agrees:
                return timed
        else:
            self.console.print(
                "the exported network does not run here; only its conversion was compared, in float32",
                style="yellow",
            )
        for name in compiled.unbuildable:
            self.console.print(f"{name} runs untuned: {NOT_BUILT}", style="yellow", markup=False)
        with self.console.status(f"writing {library}"):
            self.write(library, compiled)
        compiled.keep()
        return replace(timed, library_s=self.elapsed_s())

    def _compare(self, tuned: Tuned, complete: Callable[[], Sequence[TaskResult]]) -> NetworkTimings:
        """Compiles, checks and exports the tuned network; then times it and its contestants in turns.

        The library is written as soon as its outputs are right, so that an interruption of the rest loses
        no result.
        """
        config, network, target = self.config, tuned.network, tuned.target
        on_cpu = is_cpu(target)
        if on_cpu and get_cc() is None:
            self.console.print(
                "no C++ compiler (install g++): the tuned network is timed in this process, where other "
                "threads may slow it down",
                style="yellow",
            )
        with ExitStack() as stack:
            comparison = self.comparison or stack.enter_context(comparison_of(config, network, target))
            stack.callback(comparison.close)  # before the export is timed
            comparison.start([TUNED])  # imports run during the compilation
            with self.keeping_library():
                form, timed = self._library_first(tuned)
                if timed.library_s is not None:
                    with self.watch.stage("keep for later runs"):
                        form.compiled.keep()
            with self._may_be_interrupted(timed):
                timed = replace(timed, results=complete())
                # Without a schedule, nothing runs on a GPU.
                untuned = on_cpu and self._time_for_untuned(timed.results)
                if untuned:
                    comparison.start([UNTUNED])  # imports run during its compilation
                contestants = self._in_turns(comparison, tuned, form, untuned)
        timed = replace(timed, contestants=contestants, left_out=comparison.left_out)
        if config.export is not None and timed.library_s is not None and on_cpu:
            timed = replace(timed, exported=self._time_export(config.export, network))
        if not on_cpu:
            return timed
        with self.watch.stage("profile the network"), self.console.status("profiling the network"):
            return replace(
                timed, profile=form.compiled.profile(*network.inputs), peak_gflops=fma_peak_gflops(target)
            )

    def _library_first(self, tuned: Tuned) -> tuple[CompiledForm, NetworkTimings]:
        """The tuned network, compiled, compared and exported."""
        config = self.config
        form = self._tuned_form(tuned)
        with self.watch.stage("check outputs"), self.console.status("comparing outputs"):
            compiled, check, reasons = self.checked(tuned, form.compiled)
            agreement = None
            if config.lowering.dtype != WIDE:
                agreement = measure_agreement(tuned.network, config.lowering.dtype, compiled)
        if check.agrees and config.export is not None:
            with self.console.status(f"writing {config.export}"):
                self.write(config.export, compiled)
        return replace(form, compiled=compiled), NetworkTimings(
            check=check,
            agreement=agreement,
            unscheduled=reasons,
            library_s=self.elapsed_s() if check.agrees else None,
        )

    def _in_turns(
        self, comparison: Comparison, tuned: Tuned, form: CompiledForm, untuned: bool
    ) -> list[Contestant]:
        """Times the tuned network and its contestants in turns."""
        forms = [form, self._untuned_form(tuned)] if untuned else [form]
        with self.watch.stage("start the rivals"), self.console.status("starting the rivals"):
            comparison.enter(forms)
            comparison.prepare(tuned.original.compare)
        with self.watch.stage("time the network"), self.console.status("timing the network in turns"):
            return comparison.time(self.config.timing_repeats)

    def write(
        self,
        library: Path,
        compiled: CompiledNetwork,
        remark: str = "it can be used now",
        latency_s: float | None = None,
    ) -> None:
        """Writes the library, and says so with a remark. `latency_s` is its latency in seconds, if known."""
        with self.watch.stage("export"):
            compiled.export(library)
        self.written.append(WrittenLibrary(self.elapsed_s(), latency_s))
        say(self.console, f"wrote {library} after {self.elapsed_s():,.0f} s; {remark}")

    @contextmanager
    def keeping_library(self) -> Iterator[None]:
        """Says which library an interruption of the block leaves, if one was written before."""
        try:
            yield
        except KeyboardInterrupt:
            if self.written:
                after = f"{self.written[-1].after_s:,.0f} s"
                say(self.console, f"{self.config.export}, written after {after}, is complete and is kept")
            raise

    @contextmanager
    def _may_be_interrupted(self, timed: NetworkTimings) -> Iterator[None]:
        """Says what an interruption of the comparison with rivals leaves."""
        try:
            yield
        except KeyboardInterrupt:
            library = self.config.export if timed.library_s is not None else None
            kept = "all schedules are kept" if library is None else f"{library} and all schedules are kept"
            say(self.console, f"{kept}; the same command compares and reports without a search")
            raise

    def _time_export(self, library: Path, network: Network) -> list[Contestant]:
        """Times the exported library as users run it; empty if it cannot be timed."""
        with self.watch.stage("time the export"), self.console.status("timing the export"):
            try:
                return time_in_fresh_process(library, network.inputs)
            except FreshProcessError as error:  # the report is still worth having
                self.console.print(str(error), style="yellow", markup=False)
                return []

    def _time_for_untuned(self, results: Sequence[TaskResult]) -> bool:
        """Whether `untuned_limit_s` permits timing the untuned network; unknown latencies count as inf."""
        limit_s = self.config.untuned_limit_s
        takes_s = by_tasks_s(results, lambda task: task.untuned_latency_s or math.inf)
        return limit_s is None or (takes_s is not None and takes_s <= limit_s)


def _without_latency(results: Sequence[TaskResult]) -> set[str]:
    """Workloads that run without a schedule, since none was measured or predicted."""
    return {task.workload_hash for task in results if task.tuned_latency_s is None and not task.predicted}
