"""Latencies measured on a device, from schedules in a tuning database or from an additional short search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from types import TracebackType

from tvm.target import Target
from typing_extensions import Self

from ....compiler.replay import candidate_module_json
from ....compiler.targets import is_cpu
from ....compiler.task import UNTILED, Task
from ....compiler.templates.cpu.overflow import AccumulatorOverflowError
from ....compiler.templates.cpu.programs import template_traces
from ....dataset.hardware import Hardware
from ....dataset.measure import ExecutorConfig, MeasureConfig, MeasureJob
from ...database.tuning_database import TuningDatabase
from ...inspection.content import snapshot
from ...reuse.parent import ReuseParent
from ...search.config import OneShotConfig
from ...search.opening import anything_due
from ...search.persistence import Ledger
from ...search.tuner import Hooks, NetworkTuner
from ...spaces.stock import StockSpace
from ...starts.adapted import AdaptedStarts, ProgramAdapter
from ...starts.configured import asked_starts
from ...workers.searchers import hold_back
from ...workers.workforce import Workforce
from .latencies import (
    SEARCHED,
    TEMPLATE,
    TUNED,
    TURNS,
    UNTUNED,
    Latency,
    LatencySource,
    OnProgress,
    TaskPrograms,
)
from .other_work import OtherWork

DISTURBED_FILE = "disturbed"
"""File in the database of short searches that marks its latencies as disturbed by other work."""

ADAPTED = 4
"""Programs of another task from which a search starts."""


class MeasuredLatencies(LatencySource):
    """Latencies on a device; a context manager that ends the worker processes.

    The user's tuning database, which is only read, gives the latency of a task that has a schedule there. The
    other tasks are searched for a short time. The programs found are stored in a separate database, from
    which a restarted run continues. In the user's database, a later tuning run would take these tasks for
    tuned.
    """

    measured = True
    checkpoint = ""

    def __init__(
        self,
        target: Target,
        search: OneShotConfig,
        checkpoint: str | None,
        executor: ExecutorConfig,
        measure: MeasureConfig,
        workers: int | None,
        tuned: Path,
        own: Path,
    ) -> None:
        """`tuned` is the folder of the user's database, `own` the folder of the short searches' database."""
        self._target = target
        self._here = executor.kind == "local" and is_cpu(target)
        self._other_work = OtherWork()
        self._stack = ExitStack()
        self._workforce = Workforce(target, search, checkpoint, executor, measure, workers)
        self._stack.callback(self._workforce.close)
        try:
            self._workforce.fit()  # a bad checkpoint is an error even if all layers are already measured
            hardware = self._workforce.hardware()
            self._tuned = self._stack.enter_context(snapshot(tuned, target, hardware))
            self._own = TuningDatabase(own, target, hardware)
            self._disturbed_file = own / DISTURBED_FILE
        except BaseException:
            self._stack.close()
            raise

    @property
    def hardware(self) -> Hardware:
        """The device, without measured figures until a process has started."""
        return self._workforce.hardware()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def best(
        self,
        tasks: Sequence[Task],
        parents: Mapping[str, Sequence[ReuseParent]],
        on_progress: OnProgress,
    ) -> dict[str, Latency]:
        """See LatencySource. A task without a reduction is also measured without a schedule."""
        found: dict[str, Latency] = {}
        searched = []
        for task in tasks:
            # After an interrupted run, the database may have only the latency of naive loops.
            was_searched = bool(self._tuned.notes.ended(task))
            if (tuned := known_latency(self._tuned, task, TUNED, was_searched)) is not None:
                found[task.workload_hash] = tuned
            else:
                searched.append(task)
        self._search(searched, parents, on_progress)
        for task in searched:
            if (latency := known_latency(self._own, task, SEARCHED, True)) is not None:
                found[task.workload_hash] = self._with_template_source(task, latency)
        return found

    def fastest(self, task: Task, most: int) -> list[str]:
        """See LatencySource."""
        source = self._tuned if self._tuned.best_latency_s(task) is not None else self._own
        return list(source.latencies_s(task, most))

    def turns_s(self, programs: Sequence[TaskPrograms]) -> list[list[list[float]]]:
        """See LatencySource. There are TURNS turns, and the shortest repeat of each counts."""
        self._workforce.start()
        modules = [candidate_module_json(candidate) for of in programs for candidate in of.candidates]
        with self._watched():
            turns = [
                self._workforce.executor.measure([MeasureJob(module, keep_built=more) for module in modules])
                for more in [True] * (TURNS - 1) + [False]
            ]
        left = iter(zip(*turns, strict=True))
        return [[[turn.latency_s for turn in next(left)] for _ in of.candidates] for of in programs]

    @property
    def disturbed(self) -> bool:
        """See LatencySource."""
        return self._other_work.ever or self._disturbed_file.exists()

    @property
    def just_disturbed(self) -> bool:
        """See LatencySource."""
        return self._other_work.just_now

    def _watched(self) -> AbstractContextManager[None]:
        """Watches for other work, if this machine's CPU is the device."""
        return self._other_work.watched() if self._here else nullcontext()

    def _search(
        self,
        tasks: Sequence[Task],
        parents: Mapping[str, Sequence[ReuseParent]],
        on_progress: OnProgress,
    ) -> None:
        """Completes the searches of the tasks that are due, in the database of short searches."""
        for task in tasks:
            if task.operator not in UNTILED and self._own.notes.untuned_s(task) is None:
                # The task's naive loops take long to measure, and no network would run them.
                self._own.notes.note_untuned(task, math.inf)
        if not tasks or not anything_due(tasks, self._workforce.search, self._own):
            return
        workforce = self._workforce
        workforce.start()
        search = workforce.search
        adapter = ProgramAdapter(self._target, StockSpace(search.max_code))
        tuner = NetworkTuner(
            search,
            workforce.executor,
            workforce.searchers,
            Ledger(self._own, search.rounds),
            start_sources=[
                AdaptedStarts(lambda task: parents.get(task.workload_hash, ()), adapter, ADAPTED),
                *asked_starts(search, self._target, workforce.hardware(), self._own),
            ],
            hooks=Hooks(
                on_progress=on_progress,
                around_measuring=hold_back(search, workforce.executor, workforce.searchers),
            ),
        )
        with self._watched():
            tuner.tune(tasks)
            tuner.time_untuned()
        if self._other_work.just_now:
            self._disturbed_file.touch()

    def _with_template_source(self, task: Task, latency: Latency) -> Latency:
        """The latency, with a template as its origin if a template is the fastest program."""
        if latency.source != SEARCHED or not self._workforce.search.templates:
            return latency
        try:
            count = self._workforce.search.templates
            templates = template_traces(task.mod, self._target, self._workforce.hardware(), count)
        except AccumulatorOverflowError:
            return latency
        fastest = self.fastest(task, 1)
        return Latency(latency.seconds, TEMPLATE) if fastest and fastest[0] in templates else latency


def known_latency(database: TuningDatabase, task: Task, source: str, searched: bool) -> Latency | None:
    """The shorter one of a task's two latencies in a database: with a schedule, and without one.

    `source` is the origin of the schedules. The latency without a schedule counts alone only if `searched` is
    set, which means that a search ended without a schedule.
    """
    scheduled_s = database.best_latency_s(task)
    noted_s = database.notes.untuned_s(task)
    untuned_s = math.inf if noted_s is None else noted_s
    if scheduled_s is None:
        return Latency(untuned_s, UNTUNED) if searched and math.isfinite(untuned_s) else None
    return Latency(untuned_s, UNTUNED) if untuned_s < scheduled_s else Latency(scheduled_s, source)
