"""A tuning run from its opened parts to its report, for any source of tasks."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from datetime import datetime, timezone
from typing import Any

import torch
import tvm
from rich.console import Console
from tvm.target import Target

from ... import __version__
from ...compiler.codegen.objects import ObjectFiles
from ...compiler.hardware import DISTURBED
from ...compiler.host.memory import PeakMemory
from ...compiler.networks.alternatives.alternatives import Offer, offered_tasks
from ...compiler.targets import is_cpu
from ...compiler.task import Task
from ...compiler.tvm_compat import OLDER_CPU, older_cpu, parse_target
from ...dataset.hardware import Hardware
from ...dataset.records.low_peaks import LowPeak
from ...progress import job_progress
from ...terminal import say
from ...wording import counted, part_of, verb
from ..anytime.library import AnytimeLibrary
from ..database.predicted_schedules import PredictedSchedules
from ..database.tuning_database import TuningDatabase, folder_of
from ..database.tuning_notes import RunNote
from ..database.turns import turn_in
from ..planners.assembly import reuse_of_run
from ..planners.base import TaskPlanner
from ..reuse.base import ReuseMode
from ..search.alternatives import compared_s
from ..search.limits import Limits
from ..search.opening import anything_due, needed_tasks
from ..search.persistence import Ledger
from ..search.tuner import Hooks, NetworkTuner
from ..starts.base import StartSource
from ..starts.configured import asked_starts
from ..surrogate.memory import SurrogateMemory
from ..workers.searchers import alone_on, hold_back
from ..workers.workforce import Workforce
from .config import TuneConfig
from .conversion import REFERENCE
from .core_timeline import CoreTimeline
from .gpu_templates import Due, GpuTemplates, joined_calls
from .opened import Opened
from .pretraining import pretraining_s
from .profiling import StageClock
from .result import TaskResult, TuneResult


class TuningRun(ABC):
    """One run, whose parts share clock and console; `NetworkRun` and `SetRun` supply its tasks."""

    def __init__(
        self, config: TuneConfig, console: Console, started: float, *, searches: bool = True
    ) -> None:
        """A run without a search uses only the schedules in the database."""
        self.config = config
        self.searches = searches
        self.console = console
        self.started = started
        self.started_at = datetime.fromtimestamp(started, timezone.utc).isoformat(timespec="seconds")
        self.watch = StageClock()
        self.work = StageClock()
        self.watch.add({"start and imports": self.elapsed_s()})
        self.timeline = CoreTimeline(self.watch, self.elapsed_s)
        self._waited_s = 0.0
        self.predicted: PredictedSchedules | None = None  # of a run that measures nothing
        self.anytime: AnytimeLibrary | None = None  # of a run that writes its library early
        self.objects = ObjectFiles(cached=config.cache)
        self.memory = PeakMemory()

    @property
    def only_reads(self) -> bool:
        """Whether the run searches nothing, and leaves the database as it is."""
        return self.config.require_database or not self.searches

    def run(self) -> TuneResult:
        """Tunes and writes the report. Raises UserError."""
        try:
            return self._run()
        finally:
            self.timeline.stop()
            self.memory.stop()

    @abstractmethod
    def _run(self) -> TuneResult:
        """See `run`."""

    def elapsed_s(self) -> float:
        return time.time() - self.started

    def left_s(self) -> float | None:
        """Remaining seconds of the budget, which excludes waits for other runs; None without a budget."""
        if self.config.budget_s is None:
            return None
        return (
            self.config.budget_s - self.elapsed_s() + self._waited_s + self.work.seconds.get(REFERENCE, 0.0)
        )

    def result(self, name: str, opened: Opened, tasks: list[TaskResult], tuner: NetworkTuner) -> TuneResult:
        """The result of the search, without the results of a network's trial."""
        config, workforce = self.config, opened.workforce
        return TuneResult(
            network=name,
            target=str(opened.target),
            hardware=opened.hardware.name,
            checkpoint=workforce.checkpoint or "",
            settings={
                **{name: asdict(getattr(config, name)) for name in ("lowering", "measure", "executor")},
                "search": asdict(workforce.search),
                **{name: getattr(config, name) for name in ("seed", "budget_s", "latency_target_s")},
            },
            tasks=tasks,
            contestants=[],
            max_abs_difference=None,
            tolerance=0.0,
            total_s=0.0,
            stage_s={},
            curve=tuner.curve,
            versions={"foretune": __version__, "tvm": tvm.__version__, "torch": torch.__version__},
            started_at=self.started_at,
            profile_s=self.work.seconds,
            power_w=config.report.power_w,
            co2_kg_per_kwh=config.report.co2_kg_per_kwh,
            pretraining_s=pretraining_s(workforce.models),
            simulated=config.executor.kind in ("dry_run", "replay"),
        )

    @contextmanager
    def opened(self) -> Iterator[Opened]:
        """Opens the database, and starts processes if a search is expected; ends them afterwards."""
        config = self.config
        with self.watch.stage("start and imports"):
            target = parse_target(config.target)
            config.check_for(target)
            if is_cpu(target) and (older := older_cpu()):
                self.console.print(
                    f"{OLDER_CPU}={older}: programs use the instruction sets of {older} only; rivals use all "
                    "of this CPU",
                    style="yellow",
                    soft_wrap=True,
                )
            workforce = Workforce(
                *(target, config.search, config.checkpoint, config.executor, config.measure, config.workers),
                compiles=config.compiles_predictions,
            )
            self.timeline.start(workforce.pids)
        with self._ended(workforce), ExitStack() as stack:
            with self.watch.stage("start and imports"):
                if self.searches:
                    workforce.fit()
                hardware = workforce.hardware()
                if self.searches and not config.require_database:
                    folder = folder_of(config.database, target, hardware)
                    turn = turn_in(folder, lambda text: say(self.console, text, "yellow"))
                    self._waited_s = stack.enter_context(turn)
                database = self._open_database(target, hardware)
                if not config.search.measure:
                    self.predicted = PredictedSchedules(database.folder, target, read_only=self.only_reads)
                if not self._expects_nothing(database):
                    self._start(workforce, database)  # during the next stage
            yield Opened(target, hardware, workforce, database)

    @contextmanager
    def _ended(self, workforce: Workforce) -> Iterator[None]:
        """Ends the processes after the block."""
        try:
            yield
        finally:
            with self.watch.stage("end of the processes"):
                workforce.close()

    def _start(self, workforce: Workforce, database: TuningDatabase) -> None:
        started, hardware = workforce.start(), workforce.hardware()
        if started and hardware.details.get(DISTURBED):
            say(self.console, f"{LowPeak(hardware, 0.0)}; the cost model reads it", "yellow")
        database.describe(hardware)

    def _expects_nothing(self, database: TuningDatabase) -> bool:
        """Whether the run is likely to find nothing to do."""
        if self.only_reads:
            return True
        return not self.config.retune and database.notes.expects_nothing(self.config.task_settings)

    def _anything_due(
        self, tasks: Sequence[Task], database: TuningDatabase, reuse: ReuseMode, **options: Any
    ) -> bool:
        planner = reuse.planner(breadth_first=self.config.breadth_first)
        return anything_due(tasks, self.config.search, database, planner, predicted=self.predicted, **options)

    def _open_database(self, target: Target, hardware: Hardware) -> TuningDatabase:
        database = TuningDatabase(self.config.database, target, hardware, read_only=self.only_reads)
        if database.dropped_lines:
            dropped = f"{database.folder}: dropped an unfinished line that a stop had left"
            say(self.console, dropped, "yellow")
        return database

    def tune(
        self, tasks: Sequence[Task], opened: Opened, offers: Sequence[Offer] = ()
    ) -> tuple[NetworkTuner, list[TaskResult]]:
        """Searches the due tasks and alternatives, and returns their results."""
        config, workforce, database = self.config, opened.workforce, opened.database
        if config.require_database:
            known_s = compared_s(offers, database.network_latency_s, measured=config.search.measure)
            database.require(needed_tasks(tasks, offers, known_s), self.predicted)
        searches = not self.only_reads
        with self.watch.stage("start and imports"):
            reuse = reuse_of_run(config.search, opened.target, database, retune=config.retune)
            starts = self._starts(opened)
            due = searches and self._anything_due(tasks, database, reuse, retune=config.retune, offers=offers)
            if due:
                self._start(workforce, database)
            anytime = self.anytime if due else None
            if anytime is not None:
                anytime.use_templates(starts)
        with job_progress(self.console) as progress:
            total = len(tasks) + len(offered_tasks(tasks, offers))
            bar = progress.add_task("tune", total=total)
            planner = reuse.planner(breadth_first=config.breadth_first)

            def on_progress(name: str, done: float) -> None:
                progress.update(bar, description=name, completed=int(done * total))

            hooks = Hooks(
                elapsed_s=self.elapsed_s,
                on_progress=on_progress,
                around_measuring=hold_back(config.search, workforce.executor, workforce.searchers),
                clock=self.work,
            )
            if anytime is not None:
                hooks = replace(hooks, between_rounds=anytime.between_rounds)
            tuner = self._tuner(opened, planner, starts, hooks)
            try:
                with self.watch.stage("search and measure"):
                    # If all schedules must exist already, only the network runs.
                    noted_s = [database.notes.untuned_s(task) for task in tasks]
                    untuned_s = None if searches else [math.inf if s is None else s for s in noted_s]
                    results = tuner.tune(tasks, untuned_s, offers)
                    if searches and not self._anything_due(
                        tasks, database, reuse, offers=offers, untuned=False
                    ):
                        database.notes.note_nothing_left(self.config.task_settings)
            except KeyboardInterrupt:
                have = f"{part_of(tuner.tuned, total, 'task')} {verb(tuner.tuned or total, 'has', 'have')}"
                kept = f"what was measured is kept in {database.folder}"
                say(self.console, f"{have} a schedule; {kept}")
                raise
        searched = sum(task.candidates_measured > 0 for task in results)
        if searched and config.budget_s is None and config.latency_target_s is None:
            seconds = self.watch.seconds["search and measure"]
            database.notes.note_run(workforce.search, RunNote(searched, seconds))
        measured, failed = tuner.starts_measured
        if measured:
            points = f"{counted(measured, 'starting point')} {verb(measured, 'was', 'were')} measured"
            say(self.console, f"{points}; {failed:,} of them did not run here" if failed else points)
        return tuner, results

    def _starts(self, opened: Opened) -> list[StartSource]:
        """Start sources that the settings request."""
        config = self.config
        return asked_starts(
            config.search,
            opened.target,
            opened.hardware,
            opened.database,
            here=config.executor.kind == "local",
            alone=lambda: alone_on(opened.workforce.executor),
            retune=config.retune,
        )

    def _tuner(
        self,
        opened: Opened,
        planner: TaskPlanner,
        starts: Sequence[StartSource],
        hooks: Hooks,
    ) -> NetworkTuner:
        """Tuner of a run with started processes."""
        config, workforce, database = self.config, opened.workforce, opened.database
        search = config.search
        shared = search.share_surrogate and not self.only_reads
        ledger = Ledger(
            database,
            search.rounds,
            retune=config.retune,
            searches=not self.only_reads,
            predicted=self.predicted,
            memory=SurrogateMemory.of(database.folder, workforce.checkpoint, shared=shared),
        )
        return NetworkTuner(
            search,
            workforce.executor,
            workforce.searchers,
            ledger,
            planner=planner,
            start_sources=starts,
            limits=Limits(
                in_time=lambda: self.searches and ((left_s := self.left_s()) is None or left_s > 0),
                left_s=self.left_s,
                breadth_first=self.searches and config.breadth_first,
                latency_target_s=config.latency_target_s,
            ),
            hooks=replace(hooks, objects=self.objects),
        )

    @property
    def _times_templates(self) -> bool:
        """Whether to measure GPU templates that were never measured."""
        config = self.config
        asked = config.search.templates and config.search.measure
        return bool(asked and not self.only_reads and config.executor.has_device)

    def joined_calls(self, mod: tvm.IRModule, target: Target) -> dict[str, Due]:
        """Calls of a network whose templates `gpu_templates` measures, if it measures any."""
        return joined_calls(mod, target) if self._times_templates else {}

    def gpu_templates(self, tasks: Sequence[Task], opened: Opened, joined: Mapping[str, Due]) -> GpuTemplates:
        """GPU templates of the tasks and of `joined_calls`, after measuring the due ones."""
        config, workforce = self.config, opened.workforce
        count = config.search.templates if config.search.measure else 0
        retune = config.retune and self.searches
        templates = GpuTemplates(opened.database.folder, opened.target, count, retune=retune)
        due = templates.due(tasks, joined) if self._times_templates else {}
        if not due:
            return templates
        if missing := templates.missing():
            self.console.print(missing, style="yellow")
            return templates
        self._start(workforce, opened.database)
        with self.watch.stage("templates"), self.console.status("measuring templates for GPUs"):
            ran = templates.measure(due, workforce.executor, say=self.console.print)
        self.console.print(f"{counted(ran, 'template')} for GPUs ran")
        return templates
