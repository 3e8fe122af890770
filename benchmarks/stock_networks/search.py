"""MetaSchedule's own search of one task, which continues from the programs on disk.

It is the loop of `ms.tune_tasks` for one task: EvolutionarySearch with MetaSchedule's defaults proposes 64
programs a round, the measurement stores their latencies, and the task's XGBModel learns from them. A search
that continues takes its parents from the database, and its model learns from all records. MetaSchedule does
not know which programs an earlier process measured. It may propose them again, and this module drops them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from foretune.compiler.host.interruption import interrupts_deferred, interrupts_recorded
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import make_tune_context, workload_hash
from foretune.signals import Interrupted
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..networks.stock import ROUND
from .measuring import Measure
from .records import FAILED_S, TaskRecords, commit

_FAILED = (10 * FAILED_S,)
"""Repeats of a failed program in MetaSchedule's database."""


class TaskSearch:
    """Search of a task, with all programs that its records have."""

    def __init__(
        self,
        task: Task,
        target: Target,
        records: TaskRecords,
        trials: int,
        *,
        seed: int = 0,
        strategy: ms.SearchStrategy | str = "evolutionary",
    ) -> None:
        """Prepares to search until there are `trials` programs; raises BrokenStateError.

        Another call draws other programs than the first, because its seed also depends on their number.
        """
        self._task, self._target, self._records, self._trials = task, target, records, trials
        count = len(records.contents)
        self._context = make_tune_context(
            task.mod, target, seed=seed + count, strategy=strategy, name=task.name
        )
        earlier = records.candidates(self._context)
        self._database = records.database(task.mod, target, earlier)
        self._model = ms.cost_model.XGBModel()
        self._known = {workload_hash(one.sch.mod) for one in earlier}
        self._learn(earlier, [_result(run_secs) for _, run_secs in records.contents])
        with interrupts_deferred():
            self._context.pre_tuning(
                max_trials=trials - count,
                num_trials_per_iter=min(ROUND, trials - count),
                database=self._database,
                cost_model=self._model,
            )

    def run(self, measure: Measure, ends: float) -> None:
        """Searches until all programs are measured, or until `ends`, a time of `time.monotonic`.

        The end is checked after each round. A signal that interrupts ends the search after the programs in
        measurement. The seconds of the records do not contain the preparation.
        """
        self._before_s = self._records.rounds[-1][1] if self._records.rounds else 0.0
        self._begun = time.monotonic()
        while not self._records.done(self._trials) and time.monotonic() < ends:
            with interrupts_deferred():
                proposed = self._context.generate_measure_candidates()
            if proposed is None:
                self._records.exhausted = True
            else:
                fresh = [one for one in proposed if workload_hash(one.sch.mod) not in self._known]
                self._measure(fresh, measure)
            self._note()

    def _measure(self, fresh: list[ms.MeasureCandidate], measure: Measure) -> None:
        results: list[ms.runner.RunnerResult] = []
        with interrupts_recorded() as came:
            for found in measure(fresh) if fresh else ():
                for run_secs in found:
                    if came and not run_secs:
                        break  # the signal may have ended its process
                    candidate = fresh[len(results)]
                    commit(self._database, self._task.mod, self._target, candidate, run_secs or _FAILED)
                    results.append(_result(run_secs))
                if came:
                    break
        if came:
            self._note()
            raise Interrupted(came[0])
        self._context.notify_runner_results(fresh, results)
        self._learn(fresh, results)

    def _learn(self, candidates: list[ms.MeasureCandidate], results: list[ms.runner.RunnerResult]) -> None:
        if candidates:
            self._model.update(self._context, candidates, results)

    def _note(self) -> None:
        self._records.read_contents()
        self._records.rounds.append(
            (len(self._records.contents), self._before_s + time.monotonic() - self._begun)
        )
        self._records.write_progress()


def _result(run_secs: Iterable[float]) -> ms.runner.RunnerResult:
    seconds = [float(second) for second in run_secs]
    if seconds and max(seconds) < FAILED_S:
        return ms.runner.RunnerResult(seconds, None)
    return ms.runner.RunnerResult(None, "failed")
