"""The library of a run that can be used early: written before the search, exchanged during it.

Each library is compiled, compared with the original network and written whole, in the main process. Nothing
is measured meanwhile, because a compilation would disturb the timings. Searches go on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from ...compiler.networks import LoweredNetwork, Network
from ...compiler.tvm_compat import available_cores, target_cores
from ...dataset.measure import Executor
from ...errors import first_line
from ...terminal import say
from ...wording import milliseconds
from ..deploy.compile import CompiledNetwork
from ..deploy.original import Original
from ..deploy.threads import PoolOfThread
from ..deploy.timing import TURN_S
from ..deploy.trial import Trial, Tuned
from ..deploy.turn import timed_turn
from ..run.opened import Opened
from ..run.result import BEATEN, NOTHING_TO_TUNE, UNTUNED_IS_FASTER, TaskResult
from ..search.alternatives import take
from ..search.measuring import MeasuringThreads
from ..search.tuner import NetworkTuner
from ..starts.base import StartSource
from ..starts.templates import TemplateStarts
from ..workers.searchers import alone_on
from .first_schedules import FirstSchedules
from .rule import ExchangeRule, left_of_search_s


@dataclass(frozen=True)
class Subject:
    """A network of a run, before its search."""

    network: Network
    original: Original
    lowered: LoweredNetwork
    opened: Opened


class AnytimeLibrary:
    """The library at `trial.config.export`, during a search.

    An error of a library leaves the library before it, and the search goes on.
    """

    def __init__(
        self,
        trial: Trial,
        subject: Subject,
        left_s: Callable[[], float | None] = lambda: None,
        rule: ExchangeRule | None = None,
    ) -> None:
        """Sets up the library.

        Args:
            trial: compiles, compares and writes the libraries of the network.
            subject: the network.
            left_s: seconds until the end of the budget, or None without a budget.
            rule: when to exchange the library.
        """
        self._trial = trial
        self._subject = subject
        self._left_s = left_s
        self._rule = rule or ExchangeRule()
        self._schedules = FirstSchedules(subject.opened.target, None, None)
        self._began: float | None = None
        self._untimed: CompiledNetwork | None = None
        """The library in use, until it is timed."""
        self._latency_s = self._current_s = math.inf
        """Latency of the library in use by timing it, and by the measured latencies of its tasks."""
        self._cost_s = 0.0

    def use_templates(self, starts: Sequence[StartSource]) -> None:
        """Takes the templates of a search for the tasks that it has not measured."""
        templates = next((one.first() for one in starts if isinstance(one, TemplateStarts)), None)
        max_code = self._trial.config.search.max_code
        self._schedules = FirstSchedules(self._subject.opened.target, templates, max_code)
        self._trial.predicted = self._schedules

    def between_rounds(self, tuner: NetworkTuner, measuring: MeasuringThreads) -> None:
        """Writes the first library, times it after the first round, and later exchanges it; see `Hooks`."""
        if self._began is None:
            self._write_first(tuner)
            self._began = time.monotonic()
            return
        if self._untimed is not None:  # the processes of the run have started by now
            with measuring.paused():
                self._time_first(self._untimed)
            self._untimed = None
        searched_s = time.monotonic() - self._began
        left_s = left_of_search_s(self._left_s(), searched_s, tuner.share_done())
        if self._rule.is_due(tuner.network_s(), self._current_s, self._cost_s, left_s):
            with measuring.paused():
                self._exchange(tuner)

    def filled(self, results: Sequence[TaskResult]) -> list[TaskResult]:
        """Results in which tasks without a measurement have the schedule of a template, if there is one.

        If the candidates of a task failed, its template may have ended their process.
        """
        return [
            replace(task, predicted=True, reason="")
            if _is_open(task) and not task.candidates_measured and task.workload_hash in self._schedules
            else task
            for task in results
        ]

    def _write_first(self, tuner: NetworkTuner) -> None:
        lowered = self._subject.lowered
        results = tuner.results()
        with self._trial.watch.stage("first schedules"):
            due = {task.workload_hash for task in results if task.weight and _is_open(task)}
            self._schedules.add(task for task in lowered.tasks if task.workload_hash in due)
        compiled = self._right(results)
        if compiled is not None:
            self._trial.write(self._library, compiled, "it can be used now; better ones follow")
            self._untimed = compiled

    def _time_first(self, compiled: CompiledNetwork) -> None:
        try:
            self._latency_s = self._current_s = self._timed_s(compiled)
        except Exception as error:  # any library is better than one that does not run
            self._tell(error)
        else:
            self._trial.written[-1] = replace(self._trial.written[-1], latency_s=self._latency_s)

    def _exchange(self, tuner: NetworkTuner) -> None:
        """Exchanges the library, unless the new one is not faster after all."""
        self._current_s = tuner.network_s()
        compiled = self._right(tuner.results())
        if compiled is None:
            return
        try:
            latency_s = self._timed_s(compiled)
            if latency_s < self._latency_s:
                before = f" instead of {milliseconds(self._latency_s)}" if self._trial.written else ""
                remark = f"a run takes {milliseconds(latency_s)}{before}"
                self._trial.write(self._library, compiled, remark, latency_s)
                self._latency_s = latency_s
        except Exception as error:  # of a full disk, or of a network that does not run any more
            self._tell(error)

    def _right(self, results: Sequence[TaskResult]) -> CompiledNetwork | None:
        """The network with the schedules so far, if it computes what the original does."""
        trial, began = self._trial, time.monotonic()
        try:
            tuned = self._tuned(results)
            with trial.watch.stage("compile"):
                compiled = trial.compiled(tuned)
                compiled.link()
            with trial.watch.stage("check outputs"):
                compiled, check, _ = trial.checked(tuned, compiled)
        except Exception as error:  # TVM raises several kinds
            self._tell(error)
            return None
        finally:
            self._cost_s = time.monotonic() - began
        if check.agrees:
            return compiled
        say(trial.console, f"{self._unchanged}: {self._subject.original.describe(check)}", "yellow")
        return None

    def _tuned(self, results: Sequence[TaskResult]) -> Tuned:
        subject, opened = self._subject, self._subject.opened
        lowered = subject.lowered
        taken = take(lowered.relax_mod, lowered.alternatives, self.filled(results))
        return Tuned(
            taken.relax_mod,
            lowered,
            subject.network,
            opened.target,
            opened.database,
            taken.results,
            subject.original,
            open_tasks(taken.results),
        )

    def _timed_s(self, compiled: CompiledNetwork) -> float:
        """Latency in seconds, timed alone on the machine."""
        cores = target_cores(self._subject.opened.target) or available_cores()
        with self._trial.watch.stage("time the network"), alone_on(self._executor):
            return _timed_s(compiled, self._subject.network, min(cores, available_cores()))

    @property
    def _library(self) -> Path:
        assert self._trial.config.export is not None
        return self._trial.config.export

    @property
    def _executor(self) -> Executor:
        return self._subject.opened.workforce.executor

    @property
    def _unchanged(self) -> str:
        kept = "stays as it is" if self._trial.written else "is not written yet"
        return f"{self._library} {kept}"

    def _tell(self, error: Exception) -> None:
        say(self._trial.console, f"{self._unchanged}: {first_line(error)}", "yellow")


def open_tasks(results: Sequence[TaskResult]) -> set[str]:
    """Workload hashes of the tasks without a schedule that may have a faster one than plain loops."""
    return {task.workload_hash for task in results if _is_open(task)}


def _is_open(task: TaskResult) -> bool:
    """Whether no measurement has decided so far how a task runs."""
    decided = task.reason in (BEATEN, NOTHING_TO_TUNE, UNTUNED_IS_FASTER)
    return task.tuned_latency_s is None and not task.predicted and not decided


def _timed_s(compiled: CompiledNetwork, network: Network, threads: int) -> float:
    """Latency with as many threads as users have.

    TVM keeps a pool of threads for each thread that calls it, so another one leaves the pool of this thread.
    """

    def run() -> float:
        turn = PoolOfThread(threads).run(timed_turn, compiled.bind(*network.inputs), TURN_S)
        return turn.latency_s

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()
