"""Persistence of a run: reads and writes the tuning database's knowledge of the tasks."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from ...compiler.task import Task
from ..database.predicted_schedules import PredictedSchedules
from ..database.tuning_database import TuningDatabase
from ..run.result import BEATEN, NO_TIME, NOTHING_TO_TUNE, UNTUNED_IS_FASTER, TaskResult
from ..starts.base import StartSource
from ..starts.database import DatabaseStarts, ImportedStarts
from ..surrogate.memory import SurrogateMemory
from .candidate import Candidate
from .task_search import TaskSearch


class Ledger:
    """Tuning database of a run. It continues from the state at which an earlier run stopped."""

    def __init__(
        self,
        database: TuningDatabase,
        rounds: int,
        *,
        retune: bool = False,
        searches: bool = True,
        predicted: PredictedSchedules | None = None,
        memory: SurrogateMemory | None = None,
    ) -> None:
        """Stores the results of a run in `database`.

        Args:
            database: schedules and notes of earlier runs, extended by this run.
            rounds: total number of rounds of a task.
            retune: whether to ignore the database. The schedules of a task are replaced after a full round. A
                run that is stopped earlier therefore loses no schedule.
            searches: False for a run that uses what the database has: every task is as the last run left it.
            predicted: schedules of a run without measurements, for tasks without a measured schedule.
            memory: measurements of shared surrogates in earlier runs, extended by this run.
        """
        self.memory = memory or SurrogateMemory()
        self._database = database
        self._predicted = predicted
        self._rounds = rounds
        self._retune = retune
        self._searches = searches
        self._kept: defaultdict[str, dict[str, float]] = defaultdict(dict)
        """Stored latencies in seconds, by workload hash and trace."""
        self._replaced: set[str] = set()
        """Workload hashes with earlier schedules that this run has replaced."""

    def start_sources(self) -> Sequence[StartSource]:
        """Start sources for the searches of the run."""
        imported = ImportedStarts(self._database)
        return (imported,) if self._retune else (DatabaseStarts(self._database), imported)

    def take_up(self, search: TaskSearch) -> None:
        """Sets the state of a task from the database, including the progress of an earlier run."""
        if self._retune:
            return
        if (known_s := self._database.best_latency_s(search.task)) is None:
            search.ending.reason = self._reason_of(search.task)
            search.ending.predicted = not search.ending.reason and search.task in (self._predicted or ())
            if search.ending.reason or search.ending.predicted:
                search.end()
            return
        search.earlier.known_s = known_s
        search.parent = self._database.notes.parent(search.task)
        search.earlier.rounds = self._database.rounds_of_unfinished(search.task)
        search.had.full_rounds = self._rounds if search.earlier_rounds is None else search.earlier_rounds

    def _reason_of(self, task: Task) -> str:
        """Reason why a task without a measured schedule is not searched, or ""."""
        notes = self._database.notes
        predicted = self._predicted
        if self._searches or (predicted is not None and task in predicted):
            return notes.ended(task)
        return notes.left(task) or ("" if predicted is None else predicted.notes.left(task))

    def untuned_s(self, task: Task) -> float | None:
        """Latency in seconds of a task without a schedule; None if no earlier run measured it."""
        return None if self._retune else self._database.notes.untuned_s(task)

    def note_untuned(self, search: TaskSearch) -> None:
        """Stores the latency of a task without a schedule."""
        self._database.notes.note_untuned(search.task, search.untuned_s)

    def remember(self, search: TaskSearch) -> None:
        """Stores the measurements of a task that shares its surrogate."""
        if search.surrogate_group:
            measured = [(one.candidate, one.latency_s) for one in search.loop.known]
            self.memory.keep(search.surrogate_group, search.task.workload_hash, measured)

    def predict(self, search: TaskSearch, proposals: Sequence[Candidate]) -> None:
        """Stores the proposal that the cost model rates highest as a task's schedule, and ends the search."""
        assert self._predicted is not None
        search.end()
        if proposals:
            search.ending.predicted = True
            self._predicted.commit(search.task, max(proposals, key=lambda one: one.score).record)

    def note_ended(self, search: TaskSearch) -> None:
        """Stores the reason why a task has no schedule after the end of its search."""
        if search.ending.reason == NOTHING_TO_TUNE:
            self._database.notes.note_ended(search.task, NOTHING_TO_TUNE)
        elif search.rounds and search.known_s is None:
            slower = search.untuned_s <= search.best_s < math.inf
            if slower and self._retune:
                self._database.commit(search.task, (), replaces=True)
            self._database.notes.note_ended(search.task, UNTUNED_IS_FASTER if slower else "")

    def note_left(self, search: TaskSearch, result: TaskResult) -> None:
        """Stores the reason why this run leaves a task without a schedule.

        A task for which the run had no time is not decided, nor is a task that a network uses only without
        its alternatives.
        """
        if not self._searches:
            return
        tuned = result.tuned_latency_s is not None or result.predicted
        reason = "" if tuned or result.reason in (BEATEN, NO_TIME) else result.reason
        notes = (self._database if self._predicted is None else self._predicted).notes
        if not reason or reason != notes.ended(search.task):
            notes.note_left(search.task, reason)

    def commit(self, search: TaskSearch) -> None:
        """Stores the measurements since the last call if a schedule is faster than the untuned program.

        A program that a later round timed again is stored again if the new latency is lower.
        """
        if search.best_s >= search.untuned_s:
            return
        workload = search.task.workload_hash
        replaces = self._retune and search.full_rounds > 0 and workload not in self._replaced
        if replaces:
            self._kept.pop(workload, None)
            self._replaced.add(workload)
        kept = self._kept[workload]
        new = [one for one in search.loop.known if one.latency_s < kept.get(one.trace, math.inf)]
        self._database.commit(search.task, new, replaces=replaces)
        kept.update({one.trace: one.latency_s for one in new})
        if search.rounds:
            self._database.notes.note_parent(search.task, search.parent)
            done = 0 if search.flight.to_be_continued and not search.over else search.full_rounds
            self._database.note_rounds(search.task, min(done, self._rounds), self._rounds)
