"""Supervision of searchers: assigns tasks, sends new measurements, and replaces searchers that died."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection

from ...dataset.measure.worker.losses import KILLS_ALLOWED, Losses
from ...dataset.measure.worker.process import WorkerLostError
from ..database.tuning_notes import TaskName
from ..planners.base import Round
from ..starts.base import StartSource
from ..starts.start_queue import StartQueue
from ..surrogate.memory import SurrogateMemory
from ..surrogate.shared import SIBLING_PROGRAMS
from ..workers.base import Searcher
from ..workers.messages import RoundReply, RoundRequest, SiblingProgram
from ..workers.searchers import replied
from .task_search import TaskSearch

_DEATHS_ALLOWED = 1
"""Number of searchers that may die while they search a task before the run gives the task up.

If something else killed them, such as a lack of memory, it is KILLS_ALLOWED.
"""


class SearchSupervisor:
    """Assigns rounds to searchers and collects their replies.

    A searcher that does not know a task receives the task with all its measurements. If a process dies,
    another process can therefore open the lost session again.
    """

    def __init__(
        self,
        searchers: Sequence[Searcher],
        searches: Sequence[TaskSearch],
        start_sources: Sequence[StartSource] = (),
        memory: SurrogateMemory | None = None,
    ) -> None:
        """Sets up the supervision of `searchers`.

        Args:
            searches: all tasks of the run.
            start_sources: sources of start candidates for tasks that are opened.
            memory: measurements of shared surrogates. Each searcher receives the measurements that are new to
                it.
        """
        self.searchers = searchers
        self._searches = searches
        self._starts = StartQueue(start_sources)
        self._memory = memory or SurrogateMemory()
        self._told: defaultdict[int, set[tuple[str, str]]] = defaultdict(set)
        """Workload and trace of the sibling programs that each searcher received."""
        self._asked: dict[int, TaskSearch] = {}  # by number of the searcher
        self._handed: dict[int, list[str]] = {}  # start candidates of the requested rounds, by number
        self._losses = Losses()

    @property
    def any_asked(self) -> bool:
        """Whether a searcher owes a reply."""
        return bool(self._asked)

    @property
    def is_inline(self) -> bool:
        """Whether a searcher works in this process and replies at once."""
        return any(searcher.connection is None for searcher in self.searchers)

    def idle(self) -> list[int]:
        """Numbers of the searchers without a request."""
        return [number for number in range(len(self.searchers)) if number not in self._asked]

    def choices(self, number: int) -> tuple[list[TaskSearch], list[TaskSearch]]:
        """Free tasks for a searcher: tasks unknown to other searchers, and tasks that a busy searcher knows.

        A task that an idle searcher knows waits for that searcher.
        """
        at_work = [self.searchers[asked] for asked in self._asked]
        free = [search for search in self._searches if not search.busy and not search.over]
        preferred = [s for s in free if s.flight.searcher in (None, self.searchers[number])]
        return preferred, [search for search in free if search.flight.searcher in at_work]

    def ask(self, number: int, planned: Round) -> None:
        """Requests the proposals of a round from a searcher; `StartQueue.take` describes the starts."""
        search, searcher = planned.search, self.searchers[number]
        flight, opens = search.flight, search.flight.searcher is not searcher
        learned = search.loop.latencies_s() if opens else flight.untold
        planned, given = self._starts.take(planned, learned, opens=opens)
        self._handed[number], self._asked[number] = given, search
        flight.untold = {}
        flight.busy, flight.asked_at, flight.budget = True, time.monotonic(), planned.budget
        flight.to_be_continued = planned.to_be_continued
        flight.searcher = searcher
        if planned.follows is not None:
            search.parent = TaskName(planned.follows.name, planned.follows.workload_hash)
        elif not planned.is_child:
            search.parent = None
        searcher.ask(
            RoundRequest(
                key=search.task.workload_hash,
                budget=planned.budget,
                learned=learned,
                starts=(*given, *planned.starts),
                surrogate_group=search.surrogate_group,
                siblings=self._siblings(number, search),
                task=search.task if opens else None,
                parents=planned.parents,
            )
        )

    def _siblings(self, number: int, search: TaskSearch) -> tuple[SiblingProgram, ...]:
        """Programs of the task's family that the searcher did not receive yet."""
        told = self._told[number]
        fresh = [
            SiblingProgram(workload, program, latency_s)
            for workload, programs in self._memory.programs(search.surrogate_group).items()
            for program, latency_s in programs[:SIBLING_PROGRAMS]
            if workload != search.task.workload_hash and (workload, program.trace) not in told
        ]
        told.update((sibling.workload, sibling.candidate.trace) for sibling in fresh)
        return tuple(fresh)

    def replies(
        self, *beside: Connection, timeout_s: float | None = None
    ) -> Iterator[tuple[TaskSearch, RoundReply]]:
        """Tasks with the replies of their searchers.

        Waits until there is a reply, until a connection `beside` is readable, or for `timeout_s`. If a
        searcher dies, its task is free for another try. After too many deaths, the search of the task ends
        with the reason and an empty reply. Raises WorkersKilledError if searchers are killed one after
        another.
        """
        for number in replied(self.searchers, self._asked, *beside, timeout_s=timeout_s):
            search, handed = self._asked.pop(number), self._handed.pop(number)
            search.effort.search_s += time.monotonic() - search.flight.asked_at
            try:
                reply = self.searchers[number].reply()
                self._losses.answered()
            except WorkerLostError as gone:
                self._bury(number)
                search.flight.busy = False
                search.flight.deaths += 1
                self._losses.killed(gone)
                if search.flight.deaths <= (KILLS_ALLOWED if gone.killed else _DEATHS_ALLOWED):
                    self._starts.put_back(search.task.workload_hash, handed)
                    continue
                search.ending.reason = f"the search process died: {gone}"
                reply = RoundReply()
            yield search, reply

    def _bury(self, number: int) -> None:
        """Forgets the messages to a searcher that died. The searcher continues with a new process."""
        self._told.pop(number, None)
        for search in self._searches:
            if search.flight.searcher is self.searchers[number]:
                search.flight.searcher = None
