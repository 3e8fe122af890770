"""`foretune tune`: tune a network with a pretrained cost model, compile it, check it, time it, report."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from importlib import import_module
from pathlib import Path
from threading import Thread

import psutil
import torch
import tvm
from omegaconf import DictConfig
from rich.console import Console
from tvm.support.cc import get_cc
from tvm.target import Target

from .. import __version__
from ..configuration import from_hydra
from ..dataset.hardware import Hardware
from ..dataset.networks import Network, extract_tasks, load_network, to_relax
from ..dataset.progress import job_progress
from ..dataset.task import Task
from ..dataset.tvm_compat import parse_target
from ..errors import UserError
from .deploy.comparison import Comparison, CompiledForm
from .deploy.compile import CompiledNetwork, compile_network, how_to_run
from .deploy.fresh_process import FreshProcessError, time_in_fresh_process
from .deploy.outputs import OutputCheck, compare_outputs
from .deploy.peak import fma_peak_gflops
from .predicted_schedules import PredictedSchedules
from .profiling import StageClock
from .result import (
    TUNED,
    UNTUNED,
    Contestant,
    NetworkProfile,
    TaskResult,
    TuneResult,
    untuned_by_tasks_s,
)
from .result_file import load_comparison_runs
from .surrogate.memory import MEMORY_FILE, SurrogateMemory
from .tasks.due import anything_due
from .tasks.tuner import Limits, NetworkTuner
from .tune_config import TuneConfig
from .tuning_database import TuningDatabase
from .tuning_notes import RunNote
from .workers.searchers import hold_back
from .workers.workforce import Workforce


class OutputMismatchError(UserError, RuntimeError):
    """The tuned network computes something else than the original."""


def run(config: TuneConfig, console: Console | None = None, started: float | None = None) -> TuneResult:
    """Tunes, compiles, checks and times a network, and writes the report. Raises UserError.

    `started` is when the run began, on `time.time`'s clock, where that was before this call.
    """
    return _Run(config, console or Console(), started or time.time()).run()


@dataclass(frozen=True)
class _Timed:
    """What was timed of the whole network; nothing where it does not run here."""

    contestants: list[Contestant] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    check: OutputCheck | None = None
    exported: list[Contestant] = field(default_factory=list)
    profile: NetworkProfile | None = None
    peak_gflops: float | None = None


class _Run:
    """One run, whose parts share clock and console."""

    def __init__(self, config: TuneConfig, console: Console, started: float) -> None:
        self.config = config
        self.console = console
        self.started = started
        self.started_at = datetime.fromtimestamp(started, timezone.utc).isoformat(timespec="seconds")
        self.watch = StageClock()
        self.work = StageClock()
        self.watch.add({"start and imports": self.elapsed_s()})
        self.predicted: PredictedSchedules | None = None  # of a run that measures nothing

    def elapsed_s(self) -> float:
        return time.time() - self.started

    def run(self) -> TuneResult:
        config = self.config
        with self.watch.stage("start and imports"):
            target = parse_target(config.target)
            comparison_runs = load_comparison_runs(config.report.beside)
            config.check_for(target)
            workforce = Workforce(
                target, config.search, config.checkpoint, config.executor, config.measure, config.workers
            )
        with self._ended(workforce):
            with self.watch.stage("start and imports"):
                hardware = workforce.hardware()
                database = self._open_database(target, hardware)
                if not config.search.measure:
                    self.predicted = PredictedSchedules(database.folder, target)
                if not self._expects_nothing(database):
                    self._start(workforce, database)  # beside the next stage
            with (
                self.watch.stage("network to tasks"),
                self.console.status(f"turning {config.network} into tasks"),
            ):
                network = load_network(**self.config.network_arguments)
                began = time.perf_counter()
                relax_mod = to_relax(network, target, config.lowering)
                self.lowering_s = time.perf_counter() - began
            tuner, results = self._tune(relax_mod, network, target, workforce, database)
        simulated = config.executor.kind in ("dry_run", "replay")
        timed = _Timed()
        if config.executor.kind == "none" and config.export is not None:
            self._export_unchecked(config.export, relax_mod, target, database, results)
        elif config.executor.kind == "local":
            forms = self._compile(relax_mod, target, database, results)
            timed = self._check_and_time(forms, network, target)
        else:
            self.console.print(
                f"executor={config.executor.kind}: the network is not timed, since it does not run here"
            )
        check = timed.check
        result = TuneResult(
            network=network.name,
            target=str(target),
            hardware=hardware.name,
            checkpoint=workforce.checkpoint or "",
            settings={
                **{name: asdict(getattr(config, name)) for name in ("lowering", "measure", "executor")},
                "search": asdict(workforce.search),
                **{name: getattr(config, name) for name in ("seed", "budget_s", "latency_target_s")},
            },
            tasks=results,
            contestants=timed.contestants,
            max_abs_difference=None if check is None else check.max_abs_difference,
            tolerance=0.0 if check is None else check.tolerance,
            total_s=0.0,
            stage_s={},
            curve=tuner.curve,
            versions={"foretune": __version__, "tvm": tvm.__version__, "torch": torch.__version__},
            started_at=self.started_at,
            profile_s=self.work.seconds,
            power_w=config.report.power_w,
            co2_kg_per_kwh=config.report.co2_kg_per_kwh,
            comparison_runs=comparison_runs,
            simulated=simulated,
            exported=timed.exported,
            left_out=timed.left_out,
            network_profile=timed.profile,
            peak_gflops=timed.peak_gflops,
        )
        result = self._report(result, target, database)
        if check is not None and not check.agrees:
            raise OutputMismatchError(_mismatch(config, check))
        return result

    @contextmanager
    def _ended(self, workforce: Workforce) -> Iterator[None]:
        """Ends the processes after the block."""
        try:
            yield
        finally:
            with self.watch.stage("end of the processes"):
                workforce.close()

    def _start(self, workforce: Workforce, database: TuningDatabase) -> None:
        workforce.start()
        database.describe(workforce.hardware())

    def _expects_nothing(self, database: TuningDatabase) -> bool:
        """Whether the run is likely to find nothing to do."""
        if self.config.require_database:
            return True
        return not self.config.retune and database.notes.expects_nothing(self.config.task_settings)

    def _anything_due(self, tasks: Sequence[Task], database: TuningDatabase, retune: bool = False) -> bool:
        return anything_due(
            tasks,
            self.config.search,
            database,
            breadth_first=self.config.breadth_first,
            retune=retune,
            predicted=self.predicted,
        )

    def _open_database(self, target: Target, hardware: Hardware) -> TuningDatabase:
        database = TuningDatabase(self.config.database, target, hardware)
        if database.dropped_lines:
            self.console.print(f"[yellow]{database.folder}: dropped an unfinished line that a stop had left")
        return database

    def _tune(
        self,
        relax_mod: tvm.IRModule,
        network: Network,
        target: Target,
        workforce: Workforce,
        database: TuningDatabase,
    ) -> tuple[NetworkTuner, list[TaskResult]]:
        config = self.config
        with self.watch.stage("network to tasks"):
            tasks = extract_tasks(relax_mod, target, network.name)
        if config.require_database:
            database.require(tasks)
        with self.watch.stage("start and imports"):
            if not config.require_database and self._anything_due(tasks, database, config.retune):
                self._start(workforce, database)
        with job_progress(self.console) as progress:
            bar = progress.add_task("tune", total=len(tasks))
            tuner = NetworkTuner(
                config.search,
                workforce.executor,
                workforce.searchers,
                database,
                limits=Limits(
                    in_time=lambda: config.budget_s is None or self.elapsed_s() < config.budget_s,
                    breadth_first=config.breadth_first,
                    latency_target_s=config.latency_target_s,
                ),
                retune=config.retune,
                predicted=self.predicted,
                memory=self._memory(workforce, database),
                clock=self.work,
                elapsed_s=self.elapsed_s,
                on_progress=lambda name, done: progress.update(
                    bar, description=name, completed=int(done * len(tasks))
                ),
                around_measuring=hold_back(config.search, workforce.executor, workforce.searchers),
            )
            try:
                with self.watch.stage("search and measure"):
                    # Nothing runs but the network where all schedules must be there.
                    untuned_s = [math.inf] * len(tasks) if config.require_database else None
                    results = tuner.tune(tasks, untuned_s)
                    if not self._anything_due(tasks, database):
                        database.notes.note_nothing_left(self.config.task_settings)
            except KeyboardInterrupt:
                self.console.print(
                    f"{tuner.tuned} of {len(tasks)} tasks have a schedule; what was measured is kept in "
                    f"{database.folder}"
                )
                raise
        searched = sum(task.candidates_measured > 0 for task in results)
        if searched and config.budget_s is None and config.latency_target_s is None:
            seconds = self.watch.seconds["search and measure"]
            database.notes.note_run(workforce.search, RunNote(searched, seconds))
        measured, failed = tuner.starts_measured
        if measured:
            self.console.print(f"{measured} starting points were measured; {failed} of them did not run here")
        return tuner, results

    def _memory(self, workforce: Workforce, database: TuningDatabase) -> SurrogateMemory:
        shared = self.config.search.share_surrogate
        return SurrogateMemory(database.folder / MEMORY_FILE if shared else None, workforce.checkpoint or "")

    def _compile(
        self,
        relax_mod: tvm.IRModule,
        target: Target,
        database: TuningDatabase,
        results: Sequence[TaskResult],
    ) -> list[CompiledForm]:
        """The tuned network, and the untuned one if it is to be timed."""
        # The plots take a second to import, which a thread does while TVM compiles.
        Thread(target=import_module, args=(".report.write", __package__), daemon=True).start()
        with self.watch.stage("compile"), self.console.status("compiling the network"):
            tuned = self._tuned(relax_mod, target, database, results)
            forms = [CompiledForm(TUNED, tuned, self.elapsed_s())]
            # Without a schedule, nothing runs on a GPU.
            if target.kind.name == "llvm" and self._time_for_untuned(results):
                began = time.perf_counter()
                untuned = compile_network(relax_mod, target)
                ready_s = self.lowering_s + time.perf_counter() - began
                forms.append(CompiledForm(UNTUNED, untuned, ready_s))
        return forms

    def _tuned(
        self,
        relax_mod: tvm.IRModule,
        target: Target,
        database: TuningDatabase,
        results: Sequence[TaskResult],
    ) -> CompiledNetwork:
        # The database may hold slower schedules of such tasks, from earlier runs.
        unscheduled = {
            task.workload_hash for task in results if task.tuned_latency_s is None and not task.predicted
        }
        measured = database.database
        schedules = measured if self.predicted is None else self.predicted.behind(measured)
        return compile_network(relax_mod, target, schedules, unscheduled=unscheduled)

    def _export_unchecked(
        self,
        library: Path,
        relax_mod: tvm.IRModule,
        target: Target,
        database: TuningDatabase,
        results: Sequence[TaskResult],
    ) -> None:
        """Writes the library of a network that does not run here."""
        with self.watch.stage("compile"), self.console.status("compiling the network"):
            tuned = self._tuned(relax_mod, target, database, results)
        with self.watch.stage("export"), self.console.status(f"writing {library}"):
            tuned.export(library)
        self.console.print("the exported network was neither run nor checked here", style="yellow")

    def _check_and_time(self, forms: Sequence[CompiledForm], network: Network, target: Target) -> _Timed:
        """Checks and exports the first form, the tuned network; times all forms and their rivals."""
        config, tuned = self.config, forms[0].compiled
        with self.watch.stage("check outputs"):
            reference = network.reference_outputs()
            check = compare_outputs(reference, tuned(*network.inputs))
        exported: list[Contestant] = []
        if config.export is not None and check.agrees:
            with self.watch.stage("export"), self.console.status(f"writing {config.export}"):
                tuned.export(config.export)
            if target.kind.name == "llvm":
                with self.watch.stage("time the export"), self.console.status("timing the export"):
                    try:
                        exported = time_in_fresh_process(config.export, network.inputs)
                    except FreshProcessError as error:  # the report is still worth having
                        self.console.print(str(error), style="yellow", markup=False)
        if target.kind.name == "llvm" and get_cc() is None:
            self.console.print(
                "no C++ compiler (install g++): the tuned network is timed in this process, where other "
                "threads may slow it down",
                style="yellow",
            )
        with Comparison(
            network,
            self.config.network_arguments,
            forms,
            config.rivals,
            reference=reference,
            on_cpu=target.kind.name == "llvm",
            limit_s=config.rival_limit_s,
        ) as comparison:
            with self.watch.stage("start the rivals"), self.console.status("starting the rivals"):
                comparison.prepare()
            with self.watch.stage("time the network"), self.console.status("timing the network in turns"):
                contestants = comparison.time(config.timing_repeats)
        timed = _Timed(contestants, comparison.left_out, check, exported)
        if target.kind.name != "llvm":
            return timed
        with self.watch.stage("profile the network"), self.console.status("profiling the network"):
            return replace(timed, profile=tuned.profile(*network.inputs), peak_gflops=fma_peak_gflops(target))

    def _time_for_untuned(self, results: Sequence[TaskResult]) -> bool:
        """Whether `untuned_limit_s` lets the untuned network be timed; an unknown task takes too long."""
        limit_s, takes_s = self.config.untuned_limit_s, untuned_by_tasks_s(results)
        return limit_s is None or (takes_s is not None and takes_s <= limit_s)

    def _report(self, result: TuneResult, target: Target, database: TuningDatabase) -> TuneResult:
        """Prints and writes the result, with the length of the run, which it returns."""
        with self.watch.stage("report"):
            # Not at the top, where it would delay the searches.
            from .report.plots import drawn_early
            from .report.terminal import print_profile, print_report
            from .report.write import write_report

            drawn = drawn_early(result)
        result = replace(result, total_s=self.elapsed_s(), stage_s=self.watch.seconds)
        print_report(result, self.console)
        if self.config.profile:
            print_profile(result, self.console)
        for path in write_report(result, self.config.output, drawn):
            self.console.print(f"wrote {path}", highlight=False, soft_wrap=True)
        lines: list[str] = []
        if self.config.export is not None and result.outputs_match is not False:
            lines += how_to_run(self.config.export, target)
        folders = {"schedules": database.folder}
        if self.predicted is not None:
            folders["predicted schedules, not measured,"] = self.predicted.folder
        for what, folder in folders.items() if not result.simulated else ():
            lines.append(f"{what} for stock TVM: ms.database.JSONDatabase(work_dir={str(folder)!r})")
        for line in lines:
            self.console.print(line, highlight=False, soft_wrap=True, markup=False)
        return result


def _mismatch(config: TuneConfig, check: OutputCheck) -> str:
    return (
        f"network={config.network}: tuned outputs differ from the original by up to "
        f"{check.max_abs_difference:.3g}, over the tolerance of {check.tolerance:.3g}; do not use this "
        f"build; tune again with retune=true, and report it with {config.output / 'report.json'}"
    )


def main(config: DictConfig) -> None:
    """Entry of `foretune tune`."""
    run(from_hydra(config, TuneConfig), started=psutil.Process().create_time())
