"""Tunes the tasks of a network: several are searched side by side, and others measured meanwhile."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import wait
from typing import Any

import numpy as np
import tvm

from ..dataset.measure import Executor, MeasureJob
from ..dataset.measure.process import WorkerGone
from ..dataset.task import Task
from .rounds import Progress, gain, most_promising
from .search_config import OneShotConfig
from .search_process import task_to_json
from .searchers import Searcher, replied
from .stages import StageClock
from .tune_result import TaskResult
from .tuning_database import TuningDatabase
from .validation import Choice, Proposal, Validation, settle, validate

UNTUNED_BEST_S = 5e-4
"""Unscheduled tasks slower than `measure.slow_factor` times this run once: a slow one needs no precision."""

_UNTUNED_BATCH = 4
"""Of these that are built and run before an interrupt is heard."""

QUICK_ROOM = 4
"""Candidates measured in a quick round."""

_DEATHS_ALLOWED = 1


@dataclass(frozen=True)
class Limits:
    """When tuning ends before all tasks have had all of their rounds."""

    in_time: Callable[[], bool] = lambda: True
    """Whether there is time for another round."""
    breadth_first: bool = False
    """Whether each task gets a quick round before any is searched: what a time budget asks for."""
    latency_target_s: float | None = None
    """Estimated latency of the network, in seconds, that is good enough."""


@dataclass(eq=False)
class _Search:
    """One task on its way."""

    task: Task
    untuned_s: float
    base_rounds: int
    choice: Choice
    """What is left to measure of the proposals, and what they have measured in this run."""
    known_s: float | None = None
    """Latency of the database's schedule, where it had one."""
    finished: bool = False
    """Whether the run that put it there had searched it to the end."""
    full_rounds: int = 0
    """Rounds that were searched and validated, those of the earlier run among them; no quick ones."""
    searcher: Searcher | None = None
    """Whose session it is, None before the first round and after that session was lost."""
    rounds: int = 0
    """Rounds of this run."""
    before_s: float = math.inf
    """Best latency before the last of them."""
    quick: bool = False
    """Whether the last of them was a quick one."""
    busy: bool = False
    """Whether it is searched or measured right now."""
    over: bool = False
    """Whether the search has nothing more to propose."""
    reason: str = ""
    committed: int = 0
    untold: dict[str, float] = field(default_factory=dict)
    gains: list[float] = field(default_factory=list)
    scored: int = 0
    search_s: float = 0.0
    measure_s: float = 0.0
    asked_at: float = 0.0
    deaths: int = 0

    @property
    def best_s(self) -> float:
        found = self.choice.best_s
        return found if self.known_s is None else min(found, self.known_s)

    @property
    def network_s(self) -> float:
        """Seconds that a run of the network spends in the task, with the best so far."""
        return self.task.weight * min(self.best_s, self.untuned_s)

    @property
    def progress(self) -> Progress:
        per_round = (self.search_s + self.measure_s) / max(self.rounds, 1)
        return Progress(
            self.task.weight, min(self.best_s, self.untuned_s), tuple(self.gains), per_round or 1.0
        )


class NetworkTuner:
    """Tunes tasks; `curve` and `tuned` tell how far it is, also after an interrupt."""

    def __init__(
        self,
        config: OneShotConfig,
        executor: Executor,
        searchers: Sequence[Searcher],
        database: TuningDatabase,
        *,
        limits: Limits | None = None,
        retune: bool = False,
        clock: StageClock | None = None,
        elapsed_s: Callable[[], float] | None = None,
        on_progress: Callable[[str, float], None] = lambda name, done: None,
        around_measuring: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """`clock` takes the seconds of work by step.

        `on_progress` hears which task was measured, and the share of all tasks' rounds that lie behind.
        """
        self.config = config
        self.executor = executor
        self.searchers = searchers
        self.database = database
        self.limits = limits or Limits()
        self.retune = retune
        self.clock = clock or StageClock()
        start = time.monotonic()
        self._elapsed_s = elapsed_s or (lambda: time.monotonic() - start)
        self._on_progress = on_progress
        self._around_measuring = around_measuring
        self.curve: list[tuple[float, float]] = []
        """(seconds since the start, estimated latency of the network in seconds)."""
        self._searches: list[_Search] = []
        self._untuned: Future[list[float]] | None = None  # while it is measured
        self._asked: dict[int, _Search] = {}  # by number of the searcher
        self._measuring: dict[Future[list[Validation]], _Search] = {}
        self._progress = 0.0
        self._stopped = False

    @property
    def tuned(self) -> int:
        """How many tasks have a schedule."""
        return sum(math.isfinite(search.best_s) for search in self._searches)

    def tune(self, tasks: Sequence[Task], untuned_s: Sequence[float] | None = None) -> list[TaskResult]:
        """A result for each task, in their order.

        `untuned_s` are the tasks' latencies in seconds without a schedule, inf where one does not run; where
        they are not given, they are measured during the first searches.
        """
        base_rounds = 1 if self.limits.breadth_first else self.config.rounds
        searches = [_Search(task, math.inf, base_rounds, Choice((), self.config.stop)) for task in tasks]
        for search in searches:
            search.known_s = None if self.retune else self.database.best_latency_s(search.task)
            if search.known_s is not None:
                self._take_up(search)
        self._searches = searches
        if untuned_s is not None:
            self._take_untuned(untuned_s)
        self._woken, self._wake_up = Pipe(duplex=False)
        inline = any(searcher.connection is None for searcher in self.searchers)
        with ThreadPoolExecutor(max(1, self.executor.devices)) as measuring:
            if untuned_s is None:
                self._untuned = measuring.submit(self._measure_untuned, tasks)
                self._untuned.add_done_callback(self._wake)
            try:
                while True:
                    self._hand_out()
                    if not self._asked and not self._under_way:
                        break
                    self._take_replies(measuring)
                    if inline:
                        wait([self._woken], None if self._under_way else 0.0)
                    self._take_measured()
            finally:
                self._stopped = True  # what is measured now is the last
        self._woken.close()
        self._wake_up.close()
        for search in searches:
            self._commit(search)
        return [self._result(search) for search in searches]

    def _measure_untuned(self, tasks: Sequence[Task]) -> list[float]:
        """Latency in seconds of each task without a schedule; in a thread of its own."""
        latencies_s: list[float] = []
        for start in range(0, len(tasks), _UNTUNED_BATCH):
            if self._stopped:
                break
            jobs = [
                MeasureJob(tvm.ir.save_json(task.mod), UNTUNED_BEST_S, task=task.workload_hash)
                for task in tasks[start : start + _UNTUNED_BATCH]
            ]
            latencies_s += [outcome.latency_s for outcome in self.executor.measure(jobs)]
        return latencies_s

    def _take_untuned(self, latencies_s: Sequence[float]) -> None:
        for search, untuned_s in zip(self._searches, latencies_s, strict=True):
            search.untuned_s = untuned_s
        # By now the first round may be measured, which is not where the run began.
        begun_s = [s.task.weight * min(s.untuned_s, s.known_s or math.inf) for s in self._searches]
        self.curve.append((self._elapsed_s(), sum(begun_s)))

    def _wake(self, _: object) -> None:
        self._wake_up.send_bytes(b".")

    @property
    def _under_way(self) -> bool:
        """Whether anything is measured."""
        return bool(self._measuring) or self._untuned is not None

    def _take_up(self, search: _Search) -> None:
        """Goes on with a task of the database where an earlier run has left it."""
        had = self.database.rounds_of_unfinished(search.task)
        search.finished = had is None
        search.full_rounds = self.config.rounds if had is None else had
        # With a budget, its quick round lies behind it.
        left = max(0, self.config.rounds - search.full_rounds)
        search.base_rounds = 0 if self.limits.breadth_first else left

    def _goes_on(self) -> bool:
        target_s = self.limits.latency_target_s
        return self.limits.in_time() and (target_s is None or self._network_s() > target_s)

    def _network_s(self) -> float:
        return sum(search.network_s for search in self._searches)

    def _note(self) -> None:
        self.curve.append((self._elapsed_s(), self._network_s()))

    def _hand_out(self) -> None:
        """Gives idle searchers a round each, but searches no further ahead than can be measured soon.

        While the untuned tasks are measured, what can be searched are first rounds, which nothing improves.
        """
        for number, searcher in enumerate(self.searchers):
            ahead = len(self._measuring) - max(0, self.executor.devices - 1)
            if number in self._asked or (ahead > len(self.searchers) and self._untuned is None):
                continue
            if not self._goes_on():
                return
            if (search := self._choose(searcher)) is None:
                continue
            self._asked[number] = search
            search.busy, search.asked_at = True, time.monotonic()
            searcher.ask(self._request(search, searcher))
            search.searcher = searcher

    def _choose(self, searcher: Searcher) -> _Search | None:
        """The next round's task.

        Each task gets a first round before any gets a second one, the largest share first, by the operations
        where no latency is known. After the rounds of their own, the task that may gain most is next.

        Tasks that another searcher knows come last, and only while that one is busy: this one would read the
        design spaces anew, replay what was measured, and do without what the other has rated.
        """
        at_work = [self.searchers[number] for number in self._asked]
        free = [search for search in self._searches if not search.busy and not search.over]
        known = [search for search in free if search.searcher in (None, searcher)]
        free = known + [search for search in free if search.searcher in at_work]
        for tasks in (known, free):
            if own := [search for search in tasks if self._deserves_a_round(search)]:
                return min(
                    own, key=lambda s: (s.rounds, -min(s.network_s, 1e6), -s.task.weight * s.task.flops)
                )
        if not self.config.extra_rounds and not self.limits.breadth_first:
            return None
        for tasks in (known, free):
            more = [search for search in tasks if search.rounds < self._most_rounds(search)]
            chosen = most_promising([search.progress for search in more])
            if chosen is not None:
                return more[chosen]
        return None

    def _deserves_a_round(self, search: _Search) -> bool:
        """Whether a task is to have another round of its own: see `OneShotConfig.least_share`."""
        if search.over or search.rounds >= search.base_rounds:
            return False
        if math.isinf(search.best_s) or not search.full_rounds or len(self._searches) == 1:
            return True
        tuned_s = [s.network_s for s in self._searches if math.isfinite(s.best_s)]
        even_s = sum(tuned_s) / len(tuned_s)
        return search.network_s >= self.config.least_share * search.full_rounds * even_s

    def _most_rounds(self, search: _Search) -> int:
        """Rounds of a task in this run at most.

        A schedule of the database is only searched on where an earlier run was stopped, or where extra rounds
        are asked for.
        """
        if search.known_s is not None and not self.config.extra_rounds:
            return 0 if search.finished else max(0, self.config.rounds - search.full_rounds + search.rounds)
        return self.config.rounds + self.config.extra_rounds + self.limits.breadth_first

    def _request(self, search: _Search, searcher: Searcher) -> dict[str, Any]:
        """Asks for a round; a searcher that does not know the task gets it with all that was measured."""
        request: dict[str, Any] = {"op": "propose", "key": search.task.workload_hash}
        search.quick = self.limits.breadth_first and not search.rounds and search.known_s is None
        if search.quick:
            request["quick"] = True
        told = search.untold
        if search.searcher is not searcher:
            request["task"] = task_to_json(search.task)
            told = {v.proposal.trace: v.latency_s for v in search.choice.known}
            if search.known_s is not None:
                told = self.database.latencies_s(search.task) | told
        request["learned"] = {trace: s if math.isfinite(s) else None for trace, s in told.items()}
        search.untold = {}
        return request

    def _take_replies(self, measuring: ThreadPoolExecutor) -> None:
        """Waits for a searcher or a measurement, and has measured what searchers propose."""
        for number in replied(self.searchers, self._asked, self._woken):
            search = self._asked.pop(number)
            search.search_s += time.monotonic() - search.asked_at
            try:
                reply = self.searchers[number].reply()
            except WorkerGone as gone:
                self._bury(number, search, str(gone))
                continue
            self._propose(search, reply, measuring)

    def _propose(self, search: _Search, reply: dict[str, Any], measuring: ThreadPoolExecutor) -> None:
        self.clock.add(reply.get("stage_s", {}))
        search.scored += reply.get("scored", 0)
        search.choice.offer(
            Proposal(**{**values, "place": np.array(values["place"], dtype=np.float32)})
            for values in reply.get("proposals", ())
        )
        if "error" in reply:
            first = next(iter(str(reply["error"]).strip().splitlines()), "no message")
            search.reason = f"the search failed: {first}"
        elif "nothing" in reply:
            search.reason = "nothing to tune"
        if search.reason:
            search.over, search.busy = True, False
            self._tell(search)
            return
        search.rounds += 1
        search.before_s = search.best_s
        room = self.config.room(search.full_rounds)
        room = min(room, QUICK_ROOM) if search.quick else room
        future = measuring.submit(self._measure, search, room)
        self._measuring[future] = search
        future.add_done_callback(self._wake)

    def _measure(self, search: _Search, room: int) -> list[Validation]:
        """Up to `room` of what is left to measure, in a thread of its own."""
        if self._stopped:
            return []
        start = time.monotonic()
        choice, measure = search.choice, self.executor.measure
        finalists = 0 if search.quick else self.config.finalists
        before = len(choice.known)
        try:
            with self._around_measuring():
                validate(choice, measure, room, self._in_time, keep_built=finalists > 0)
                if self._in_time():
                    search.over = choice.over or len(choice.known) == before
                    settle(choice, measure, finalists)
            return choice.known[before:]
        finally:
            search.measure_s += time.monotonic() - start

    def _in_time(self) -> bool:
        return not self._stopped and self.limits.in_time()

    def _take_measured(self) -> None:
        while self._woken.poll():
            self._woken.recv_bytes()
        if self._untuned is not None and self._untuned.done():
            untuned, self._untuned = self._untuned, None
            self._take_untuned(untuned.result())
        for future in [future for future in self._measuring if future.done()]:
            search = self._measuring.pop(future)
            search.busy = False
            measured = future.result()
            # A round that a limit has cut short is to be had again.
            search.full_rounds += not search.quick and self.limits.in_time()
            if search.over:
                search.full_rounds = max(search.full_rounds, self.config.rounds)
            search.untold |= {v.proposal.trace: v.latency_s for v in measured}
            self.clock.add(
                {
                    "building": sum(validation.outcome.build_s for validation in measured),
                    "timing": sum(validation.outcome.run_s for validation in measured),
                }
            )
            if search.rounds > 1 or search.known_s is not None:
                search.gains.append(gain(search.before_s, search.best_s))
            self._commit(search)
            self._tell(search)
            self._note()

    def _bury(self, number: int, search: _Search, message: str) -> None:
        """A searcher died: its sessions are opened again elsewhere, and the task tried once more."""
        for other in self._searches:
            if other.searcher is self.searchers[number]:
                other.searcher = None
        search.busy = False
        search.deaths += 1
        if search.deaths > _DEATHS_ALLOWED:
            search.over, search.reason = True, f"the search process died: {message}"
            self._tell(search)

    def _tell(self, search: _Search) -> None:
        """Tells how far the run is, after a task's round."""
        left = [1 - s.rounds / s.base_rounds for s in self._searches if self._deserves_a_round(s)]
        # A task's share may grow again while the others get faster.
        self._progress = max(self._progress, 1 - sum(left) / len(self._searches))
        self._on_progress(search.task.name, self._progress)

    def _commit(self, search: _Search) -> None:
        """Keeps what was measured since the last time, where it is of use."""
        if search.best_s < search.untuned_s:
            self.database.commit(search.task, search.choice.known[search.committed :])
            search.committed = len(search.choice.known)
            if search.rounds:
                of = self.config.rounds
                self.database.note_rounds(search.task, min(search.full_rounds, of), of)

    def _result(self, search: _Search) -> TaskResult:
        task, best_s = search.task, search.best_s
        reason = search.reason
        if math.isinf(best_s) and not reason:
            reason = (
                "no candidate ran" if search.choice.known else "the limits of the run left no time for it"
            )
        elif best_s >= search.untuned_s and math.isfinite(best_s):
            reason = "untuned is faster"
        return TaskResult(
            name=task.name,
            operator=task.operator,
            workload_hash=task.workload_hash,
            weight=task.weight,
            flops=task.flops,
            untuned_latency_s=search.untuned_s if math.isfinite(search.untuned_s) else None,
            tuned_latency_s=best_s if best_s < search.untuned_s else None,
            candidates_scored=search.scored,
            candidates_measured=len(search.choice.known),
            candidates_failed=sum(v.outcome.failure is not None for v in search.choice.known),
            search_s=search.search_s,
            measure_s=search.measure_s,
            predicted_scores=[v.predicted_score for v in search.choice.known],
            measured_latencies_s=[v.latency_s for v in search.choice.known],
            reason=reason,
            from_database=search.known_s is not None and not search.choice.known,
        )
