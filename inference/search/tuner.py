"""Tuner of a network's tasks. It searches several tasks in parallel and measures others meanwhile."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from multiprocessing.connection import wait

from ...compiler.codegen.objects import ObjectFiles
from ...compiler.networks.alternatives.alternatives import Offer, offered_tasks
from ...compiler.task import Task
from ...dataset.measure import Executor
from ..planners.base import TaskPlanner
from ..planners.turn_planner import make_planner
from ..run.profiling import StageClock
from ..run.result import TaskResult
from ..starts.base import StartSource
from ..workers.base import Searcher
from ..workers.messages import RoundReply
from .alternatives import HEADROOM, Contests
from .candidate import MeasuredCandidate
from .config import OneShotConfig
from .limits import Limits
from .measuring import MeasuringThreads, may_win_untuned
from .opening import opened_searches
from .persistence import Ledger
from .supervision import SearchSupervisor
from .task_search import TaskSearch, task_result


@dataclass(frozen=True)
class Hooks:
    """Functions that the caller passes to a run."""

    elapsed_s: Callable[[], float] | None = None
    """Seconds since the start of the run, for the curve; None counts from the creation of the tuner."""
    on_progress: Callable[[str, float], None] = lambda name, done: None
    """Called with the name of the measured task and the share of all rounds that are done."""
    around_measuring: Callable[[], AbstractContextManager[object]] = nullcontext
    """Context manager that is active during every measurement."""
    clock: StageClock = field(default_factory=StageClock)
    """Clock that records the seconds of work by step."""
    objects: ObjectFiles | None = None
    """Takes the object files of the tasks' fastest programs."""
    between_rounds: Callable[[NetworkTuner, MeasuringThreads], None] = lambda tuner, measuring: None
    """Called before the first round, and whenever rounds were measured; may pause the measurements."""


@dataclass(frozen=True)
class _CurvePoint:
    """Point of the tuning curve."""

    elapsed_s: float
    known_s: float
    """Estimated seconds of the network without the tasks in `unknown`."""
    unknown: tuple[TaskSearch, ...]
    """Tasks that had no schedule, whose latency without one may be measured later."""

    @property
    def network_s(self) -> float:
        """Estimated seconds of the network; inf as long as the latency of a task is unknown."""
        return self.known_s + sum(search.task.weight * search.untuned_s for search in self.unknown)


class NetworkTuner:
    """Tunes tasks. `curve` and `tuned` report the progress, also after an interrupt.

    A planner chooses the next task, search processes propose candidates, threads measure them, and a ledger
    stores the results.
    """

    def __init__(
        self,
        config: OneShotConfig,
        executor: Executor,
        searchers: Sequence[Searcher],
        ledger: Ledger,
        *,
        planner: TaskPlanner | None = None,
        start_sources: Sequence[StartSource] = (),
        limits: Limits | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        """Sets up a run.

        Args:
            config: settings of the search.
            executor: measures candidates.
            searchers: propose candidates.
            ledger: findings of earlier runs; stores the results of this run.
            planner: by default, the planner that `config.planner` selects.
            start_sources: sources of candidates in addition to those measured in the database.
            limits: conditions that end tuning early.
            hooks: functions of the caller.
        """
        self._config = config
        self._executor = executor
        self._searchers = searchers
        self._ledger = ledger
        self._limits = limits or Limits()
        self._planner = planner or make_planner(config, breadth_first=self._limits.breadth_first)
        self._start_sources = [*ledger.start_sources(), *start_sources]
        self._hooks = hooks or Hooks()
        start = time.monotonic()
        self._elapsed_s = self._hooks.elapsed_s or (lambda: time.monotonic() - start)
        self._curve: list[_CurvePoint] = []
        self._late: list[TaskSearch] = []
        self._searches: list[TaskSearch] = []
        self._contests = Contests((), ())

    @property
    def curve(self) -> list[tuple[float, float]]:
        """(seconds since the start, estimated latency of the network in seconds)."""
        return [(point.elapsed_s, point.network_s) for point in self._curve]

    @property
    def tuned(self) -> int:
        """Number of tasks that have a schedule."""
        return sum(math.isfinite(search.best_s) or search.ending.predicted for search in self._searches)

    @property
    def starts_measured(self) -> tuple[int, int]:
        """Number of measured start candidates, and the number of these that failed."""
        measured = [known for search in self._searches for known in search.loop.known]
        starts = [known for known in measured if known.candidate.is_start]
        return len(starts), sum(math.isinf(known.latency_s) for known in starts)

    def tune(
        self,
        tasks: Sequence[Task],
        untuned_s: Sequence[float] | None = None,
        offers: Sequence[Offer] = (),
    ) -> list[TaskResult]:
        """One result per task, in order, then one per searched alternative task and per searched bridge.

        `untuned_s` are latencies in seconds without a schedule, inf if a task does not run. None uses the
        latencies that earlier runs noted. Other tasks are measured during the first searches if they may be
        faster without a schedule, and otherwise by `time_untuned`. Alternatives and bridges have none.
        The run gives up hopeless alternatives among `offers` (`alternatives.HOPELESS`).
        """
        own = [*tasks, *offered_tasks(tasks, offers)]
        bridges = list(self._planner.further_tasks(tasks))
        self._searches, self._contests = opened_searches(
            [*own, *bridges], self._config, self._planner, self._ledger, offers
        )
        unknown = self._take_known_untuned(self._searches[: len(tasks)], untuned_s)
        self._late = [search for search in unknown if not may_win_untuned(search.task)]
        unknown = [search for search in unknown if search not in self._late]
        if not unknown:
            self._begin_curve()
        supervisor = SearchSupervisor(
            self._searchers, self._searches, self._start_sources, self._ledger.memory
        )
        around, objects = self._hooks.around_measuring, self._hooks.objects
        threads = MeasuringThreads(self._executor, self._limits.may_measure, around, objects)
        with self._kept(), threads as measuring:
            self._hooks.between_rounds(self, measuring)
            if unknown:
                due = sum(search.known_s is not None for search in unknown)
                measuring.start_untuned([search.task for search in unknown], due, self._limits.in_time)
            while True:
                self._hand_out(supervisor, measuring)
                if not measuring.is_busy and (not supervisor.any_asked or self._is_late()):
                    break
                asked = supervisor.any_asked
                for search, reply in supervisor.replies(measuring.woken, timeout_s=self._limits.wait_s()):
                    self._take_proposals(search, reply, measuring)
                if supervisor.is_inline:
                    # A device without a round gets one first, if possible. Nothing else may wake.
                    free = asked and measuring.rounds_under_way < self._executor.devices
                    goes_on = not measuring.is_busy or (free and not measuring.untuned_under_way)
                    wait([measuring.woken], 0.0 if goes_on else None)
                if (latencies_s := measuring.take_untuned()) is not None:
                    self._take_measured_untuned(unknown, latencies_s)
                if rounds := measuring.take_rounds():
                    for search, measured in rounds:
                        self._take_measured(search, measured)
                    self._hooks.between_rounds(self, measuring)
        return self._concluded(len(own))

    def _concluded(self, own: int) -> list[TaskResult]:
        """Stores the outcome of each task; results of the first `own` searches and of searched bridges."""
        complete = self._goes_on()
        fast_enough = not complete and self._limits.in_time()
        for search in self._searches:
            if complete and self._planner.completes_all:
                search.complete(self._config.rounds)
            self._ledger.commit(search)
            if complete:
                self._ledger.note_ended(search)
        results = [task_result(search, fast_enough=fast_enough) for search in self._searches]
        for search, result in zip(self._searches, results, strict=True):
            self._ledger.note_left(search, result)
        bridges = zip(self._searches[own:], results[own:], strict=True)
        return [*results[:own], *(result for search, result in bridges if search.rounds)]

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Stores the measurements of rounds that an interrupt or an error cuts short."""
        try:
            yield
        except BaseException:
            for search in self._searches:
                self._ledger.commit(search)
            raise

    def _take_known_untuned(
        self, searches: Sequence[TaskSearch], untuned_s: Sequence[float] | None
    ) -> list[TaskSearch]:
        """Sets untuned latencies that are given or noted, and returns the searches without one.

        Searches with a schedule of an earlier run come first: this schedule may be slower than the untuned
        program.
        """
        known: Sequence[float | None] = untuned_s or [
            self._ledger.untuned_s(search.task) for search in searches
        ]
        for search, seconds in zip(searches, known, strict=True):
            search.untuned_s = math.inf if seconds is None else seconds
        unknown = [
            search
            for search, seconds in zip(searches, known, strict=True)
            if seconds is None and self._config.measure
        ]
        return sorted(unknown, key=lambda search: search.known_s is None)

    def _take_measured_untuned(
        self, searches: Sequence[TaskSearch], latencies_s: Sequence[float | None]
    ) -> None:
        for search, untuned_s in zip(searches, latencies_s, strict=True):
            if untuned_s is not None:
                search.untuned_s = untuned_s
                self._ledger.note_untuned(search)
        self._begin_curve()

    def _begin_curve(self) -> None:
        # The first rounds may be measured by now. The start of the curve must not include them.
        self._mark({s: s.task.weight * min(s.untuned_s, s.known_s or math.inf) for s in self._searches})

    def _mark(self, task_s: Mapping[TaskSearch, float], saved_s: float = 0.0) -> None:
        """Adds a point to the curve, from the seconds per run of the network in each task."""
        calls = {search: seconds for search, seconds in task_s.items() if search.task.weight}
        unknown = tuple(search for search in self._late if math.isinf(calls.get(search, 0.0)))
        known_s = sum(seconds for search, seconds in calls.items() if search not in unknown)
        self._curve.append(_CurvePoint(self._elapsed_s(), known_s - saved_s, unknown))

    @property
    def leaves_untuned(self) -> bool:
        """Whether `tune` left latencies without a schedule to `time_untuned`."""
        return bool(self._late)

    def time_untuned(self, in_time: Callable[[], bool] = lambda: True) -> dict[str, float]:
        """Latencies in seconds, by workload hash, of tasks without a schedule that `tune` did not measure.

        They are for the report: a schedule is faster than plain loops in these tasks, so that a run may
        measure them when its library is written. `in_time` returns whether another batch may start. A task
        without a latency, for lack of time, is left out; the value inf says that it does not run.
        """
        found: dict[str, float] = {}
        with MeasuringThreads(self._executor, objects=self._hooks.objects) as measuring:
            measuring.start_untuned([search.task for search in self._late], in_time=in_time)
            while (latencies_s := measuring.take_untuned()) is None:
                wait([measuring.woken])
        for search, untuned_s in zip(self._late, latencies_s, strict=True):
            if untuned_s is not None:
                search.untuned_s = found[search.task.workload_hash] = untuned_s
                self._ledger.note_untuned(search)
        return found

    def results(self) -> list[TaskResult]:
        """Result of each task so far, including alternatives and bridges."""
        return [task_result(search) for search in self._searches]

    def share_done(self) -> float:
        """Share of the planned rounds that are done, in [0, 1]."""
        return self._planner.share_done()

    def _goes_on(self) -> bool:
        target_s = self._limits.latency_target_s
        return self._limits.in_time() and (target_s is None or self.network_s() > target_s)

    def _is_late(self) -> bool:
        """Whether the time is over for all tasks, so that no further proposal would be measured."""
        if not self._config.measure or self._limits.in_time():  # a prediction is stored even if it is late
            return False
        return not any(map(self._limits.lacks_schedule, self._searches))

    def network_s(self) -> float:
        """Estimated latency of the network in seconds, with the best schedules so far."""
        return sum(search.network_s for search in self._searches) - self._contests.saved_s()

    def _hand_out(self, supervisor: SearchSupervisor, measuring: MeasuringThreads) -> None:
        """Assigns one round to each idle searcher, but never searches far ahead of the measurements.

        While the untuned tasks are measured, only first rounds can be searched, which do not depend on
        measurements.
        """
        for number in supervisor.idle():
            ahead = measuring.rounds_under_way - max(0, self._executor.devices - 1)
            if ahead > len(self._searchers) and not measuring.untuned_under_way:
                continue
            preferred, others = supervisor.choices(number)
            if not self._goes_on():
                preferred, others = self._limits.late(preferred), self._limits.late(others)
                if not preferred and not others:
                    return
            planned = self._contests.next_round(self._planner, preferred, others)
            if planned is not None:
                supervisor.ask(number, planned)

    def _take_proposals(self, search: TaskSearch, reply: RoundReply, measuring: MeasuringThreads) -> None:
        self._hooks.clock.add(reply.stage_s)
        search.effort.scored += reply.scored
        search.effort.counts += reply.counts
        search.ending.reason = search.ending.reason or reply.reason
        if search.ending.reason:
            search.end()
            search.flight.busy = False
            self._tell(search)
            return
        search.round_begins()
        if not self._config.measure:
            search.flight.busy = False
            self._ledger.predict(search, reply.proposals)
            self._tell(search)
            return
        search.loop.start_round(reply.proposals, search.flight.budget)
        measuring.start_round(search)

    def _take_measured(self, search: TaskSearch, measured: list[MeasuredCandidate]) -> None:
        search.round_ends(measured, complete=self._limits.in_time(), all_rounds=self._config.rounds)
        self._hooks.clock.add(
            {
                "building": sum(measurement.outcome.build_s for measurement in measured),
                "timing": sum(measurement.outcome.run_s for measurement in measured),
            }
        )
        self._contests.give_up(self._config.rounds)
        self._contests.end_beaten(HEADROOM)
        self._ledger.commit(search)
        self._ledger.remember(search)
        self._tell(search)
        self._mark({search: search.network_s for search in self._searches}, self._contests.saved_s())

    def _tell(self, search: TaskSearch) -> None:
        self._hooks.on_progress(search.task.name, self._planner.share_done())
