"""Persistence of a run: what the tuning database knows of its tasks, and what it learns of them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from ...compiler.task import Task
from ..database.predicted_schedules import PredictedSchedules
from ..database.tuning_database import TuningDatabase
from ..run.result import NOTHING_TO_TUNE, UNTUNED_IS_FASTER
from ..starts.base import StartSource
from ..starts.database import DatabaseStarts
from ..starts.imported import ImportedStarts
from ..surrogate.memory import SurrogateMemory
from .candidate import Candidate
from .task_search import TaskSearch


class Ledger:
    """The tuning database of a run, which goes on where an earlier run was stopped."""

    def __init__(
        self,
        database: TuningDatabase,
        rounds: int,
        *,
        retune: bool = False,
        predicted: PredictedSchedules | None = None,
        memory: SurrogateMemory | None = None,
    ) -> None:
        """Keeps what a run learns in `database`.

        Args:
            database: schedules and notes of earlier runs, which takes those of this one.
            rounds: rounds that a task gets in all.
            retune: whether nothing is taken from the database. The schedules of a task are replaced after a
                full round: a run that is stopped before loses none.
            predicted: schedules of a run that measures nothing, for tasks without a measured one.
            memory: what shared surrogates learned in earlier runs; takes what they learn in this one.
        """
        self.memory = memory or SurrogateMemory()
        self._database = database
        self._predicted = predicted
        self._rounds = rounds
        self._retune = retune
        self._kept: defaultdict[str, dict[str, float]] = defaultdict(dict)
        """Latencies in seconds that are kept, by workload hash and trace."""
        self._replaced: set[str] = set()
        """Workload hashes whose earlier schedules are gone."""

    def start_sources(self) -> Sequence[StartSource]:
        """Start sources for searches of the run."""
        imported = ImportedStarts(self._database)
        return (imported,) if self._retune else (DatabaseStarts(self._database), imported)

    def take_up(self, search: TaskSearch) -> None:
        """Notes what the database knows of a task and how far an earlier run has come with it."""
        if self._retune:
            return
        if (known_s := self._database.best_latency_s(search.task)) is None:
            search.ending.reason = self._database.notes.ended(search.task)
            search.ending.predicted = not search.ending.reason and search.task in (self._predicted or ())
            if search.ending.reason or search.ending.predicted:
                search.end()
            return
        search.earlier.known_s = known_s
        search.parent = self._database.notes.parent(search.task)
        search.earlier.rounds = self._database.rounds_of_unfinished(search.task)
        search.had.full_rounds = self._rounds if search.earlier_rounds is None else search.earlier_rounds

    def untuned_s(self, task: Task) -> float | None:
        """Latency in seconds of a task without a schedule, None where no earlier run measured it."""
        return None if self._retune else self._database.notes.untuned_s(task)

    def note_untuned(self, search: TaskSearch) -> None:
        """Keeps the latency of a task without a schedule."""
        self._database.notes.note_untuned(search.task, search.untuned_s)

    def remember(self, search: TaskSearch) -> None:
        """Keeps the measurements of a task that shares its surrogate."""
        if search.surrogate_group:
            measured = [(one.candidate, one.latency_s) for one in search.loop.known]
            self.memory.keep(search.surrogate_group, search.task.workload_hash, measured)

    def predict(self, search: TaskSearch, proposals: Sequence[Candidate]) -> None:
        """Keeps the proposal that the cost model rates best as a task's schedule, and ends the search."""
        assert self._predicted is not None
        search.end()
        if proposals:
            search.ending.predicted = True
            self._predicted.commit(search.task, max(proposals, key=lambda one: one.score).record)

    def note_ended(self, search: TaskSearch) -> None:
        """Keeps why a task has no schedule after its search has come to its end."""
        if search.ending.reason == NOTHING_TO_TUNE:
            self._database.notes.note_ended(search.task, NOTHING_TO_TUNE)
        elif search.rounds and search.known_s is None:
            slower = search.untuned_s <= search.best_s < math.inf
            if slower and self._retune:
                self._database.commit(search.task, (), replaces=True)
            self._database.notes.note_ended(search.task, UNTUNED_IS_FASTER if slower else "")

    def commit(self, search: TaskSearch) -> None:
        """Keeps what was measured since the last time, where a schedule beats the untuned program.

        A program that a later round timed again is kept once more where that lowers its latency.
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
