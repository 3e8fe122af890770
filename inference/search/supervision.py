"""Supervision of searchers: who searches which task, what each is told, and what happens when one dies."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection

from ...dataset.measure.worker.process import WorkerLostError
from ..database.tuning_notes import TaskName
from ..planners.base import Round
from ..starts.base import StartSource
from ..surrogate.memory import SurrogateMemory
from ..surrogate.shared import SIBLING_PROGRAMS
from ..workers.messages import RoundReply, RoundRequest, SiblingProgram
from ..workers.searchers import Searcher, replied
from .alternatives import RESIZED_TEMPLATES
from .task_search import TaskSearch

_DEATHS_ALLOWED = 1
"""Searchers that may die of a task before it is given up."""

_GIVEN = 0.5
"""Share of a round for candidates of start sources, such as templates.

A child has adapted programs besides. With half as many templates, large products of BERT-base on AVX2 were
1.05 to 1.4 times as slow.
"""


class SearchSupervisor:
    """Hands rounds to searchers and collects their replies.

    A searcher that does not know a task is given it with all that was measured of it, so that a session lost
    with a dead process is opened again elsewhere.
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
            start_sources: give tasks candidates when they are opened.
            memory: what shared surrogates have learned, of which each searcher is told what is new to it.
        """
        self.searchers = searchers
        self._searches = searches
        self._start_sources = start_sources
        self._memory = memory or SurrogateMemory()
        self._told: defaultdict[int, set[tuple[str, str]]] = defaultdict(set)
        """Workload and trace of the siblings' programs that each searcher was told."""
        self._asked: dict[int, TaskSearch] = {}  # by number of the searcher
        self._templates: dict[str, list[str]] = {}  # of alternatives, by workload hash
        self._waiting: dict[str, list[str]] = {}  # starts for later rounds, by workload hash
        self._handed: dict[int, list[str]] = {}  # starts of the rounds that are asked for, by number

    @property
    def any_asked(self) -> bool:
        """Whether a reply is awaited."""
        return bool(self._asked)

    @property
    def is_inline(self) -> bool:
        """Whether a searcher works in this process, so that replies are there at once."""
        return any(searcher.connection is None for searcher in self.searchers)

    def idle(self) -> list[int]:
        """Numbers of the searchers without a request."""
        return [number for number in range(len(self.searchers)) if number not in self._asked]

    def choices(self, number: int) -> tuple[list[TaskSearch], list[TaskSearch]]:
        """Free tasks for a searcher: those that it or none knows, and those that a busy one knows.

        Tasks that an idle searcher knows wait for that one.
        """
        at_work = [self.searchers[asked] for asked in self._asked]
        free = [search for search in self._searches if not search.busy and not search.over]
        preferred = [s for s in free if s.searcher in (None, self.searchers[number])]
        return preferred, [search for search in free if search.searcher in at_work]

    def ask(self, number: int, planned: Round) -> None:
        """Asks a searcher for the proposals of a round.

        Starts that the round has no room for come in later ones, but a child's short round drops them.
        """
        search, searcher = planned.search, self.searchers[number]
        workload = search.task.workload_hash
        waiting = self._waiting.pop(workload, [])
        learned, given = search.untold, waiting if search.rounds else []
        opened = search.searcher is not searcher
        if opened:
            learned = search.loop.latencies_s()
            for start in (start for source in self._start_sources for start in source.starts(search.task)):
                if start.latency_s is not None:
                    learned.setdefault(start.trace, start.latency_s)
                elif start.alone:
                    given = [start.trace]
                    planned = replace(planned, budget=replace(planned.budget, search=False))
                    break
                elif not search.rounds:
                    given.append(start.trace)
        if given and search.is_alternative and planned.budget.search:
            # Its templates decide on an alternative: searches found faster programs of few.
            self._templates[workload] = given
            given = self._worthwhile(planned, given)
            planned = replace(
                planned,
                budget=replace(planned.budget, measured=len(given), search=False),
                starts=(),
                parents=(),
                follows=None,
                is_child=False,
            )
        room = planned.budget.measured
        # A search has programs of its own that are to be measured, too.
        most = math.ceil(_GIVEN * room) if planned.budget.search else max(0, room - len(planned.starts))
        if planned.budget.quick or not planned.is_child:
            self._waiting[workload] = given[most:]
        self._handed[number] = given = given[:most]
        search.untold = {}
        self._asked[number] = search
        search.busy, search.asked_at, search.budget = True, time.monotonic(), planned.budget
        search.to_be_continued = planned.to_be_continued
        if planned.follows is not None:
            search.parent = TaskName(planned.follows.name, planned.follows.workload_hash)
        elif not planned.is_child:
            search.parent = None
        searcher.ask(
            RoundRequest(
                key=workload,
                budget=planned.budget,
                learned=learned,
                starts=(*given, *planned.starts),
                surrogate_group=search.surrogate_group,
                siblings=self._siblings(number, search),
                task=search.task if opened else None,
                parents=planned.parents,
            )
        )
        search.searcher = searcher

    def _worthwhile(self, planned: Round, given: list[str]) -> list[str]:
        """Templates of an alternative to measure: the one that was the fastest on the same loops, if known.

        Templates of the same loops are the same ones in the same order, whatever the element-wise steps.
        """
        if (like := planned.like) is not None:
            theirs = self._templates.get(like.task.workload_hash, [])
            ran = {trace: s for trace, s in like.loop.latencies_s().items() if math.isfinite(s)}
            fastest = min(ran, key=lambda trace: ran[trace], default=None)
            if fastest in theirs and len(theirs) == len(given):
                return [given[theirs.index(fastest)]]
        return given[:RESIZED_TEMPLATES] if planned.search.known_resized else given

    def _siblings(self, number: int, search: TaskSearch) -> tuple[SiblingProgram, ...]:
        """Programs of the task's family that the searcher was not told."""
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

        Waits until there is one, until a connection `beside` is readable, or for `timeout_s`. A task whose
        searcher died is free for another try; at the second death it is over, with the reason, and an empty
        reply.
        """
        for number in replied(self.searchers, self._asked, *beside, timeout_s=timeout_s):
            search, handed = self._asked.pop(number), self._handed.pop(number)
            search.search_s += time.monotonic() - search.asked_at
            try:
                reply = self.searchers[number].reply()
            except WorkerLostError as gone:
                self._bury(number)
                search.busy = False
                search.deaths += 1
                if search.deaths <= _DEATHS_ALLOWED:
                    self._waiting.setdefault(search.task.workload_hash, [])[:0] = handed
                    continue
                search.reason = f"the search process died: {gone}"
                reply = RoundReply()
            yield search, reply

    def _bury(self, number: int) -> None:
        """Forgets what a searcher that died was told; it goes on with a new process."""
        self._told.pop(number, None)
        for search in self._searches:
            if search.searcher is self.searchers[number]:
                search.searcher = None
