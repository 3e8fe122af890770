"""Start candidates of the tasks of a run: the first ones of each round, and those left for later rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..planners.base import Round
from ..search.alternatives import RESIZED_TEMPLATES
from .base import StartSource

_GIVEN = 0.5
"""Share of a round for candidates of start sources, such as templates.

A child has adapted programs in addition. With half as many templates, large products of BERT-base on AVX2
had 1.05 to 1.4 times the latency.
"""


class StartQueue:
    """Candidates of the start sources that no round has measured yet."""

    def __init__(self, sources: Sequence[StartSource]) -> None:
        """`sources` provide the candidates of a task whenever a searcher opens it."""
        self._sources = sources
        self._templates: dict[str, list[str]] = {}  # of alternatives, by workload hash
        self._waiting: dict[str, list[str]] = {}  # starts for later rounds, by workload hash

    def take(self, planned: Round, learned: dict[str, float], *, opens: bool) -> tuple[Round, list[str]]:
        """The round to request, and the start candidates that it measures first.

        Starts for which the round has no room come in later rounds, except that a child's short round drops
        them.

        Args:
            planned: the round of the planner.
            learned: latencies in seconds by trace that the searcher learns; latencies of the sources are
                added.
            opens: whether the task is new to the searcher.
        """
        search = planned.search
        workload = search.task.workload_hash
        waiting = self._waiting.pop(workload, [])
        given = waiting if search.rounds else []
        if opens:
            planned, given = self._with_sources(planned, learned, given)
        if given and search.is_alternative and planned.budget.search:
            # Templates alone decide on an alternative: searches found faster programs for few of them.
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
        if given and planned.templates_alone and planned.budget.search:
            most = len(given) if planned.most_templates is None else planned.most_templates
            measured = min(len(given), planned.budget.measured, most)
            planned = replace(planned, budget=replace(planned.budget, measured=measured, search=False))
        room = planned.budget.measured
        # A search also has programs of its own to measure.
        most = math.ceil(_GIVEN * room) if planned.budget.search else max(0, room - len(planned.starts))
        if planned.budget.quick or not planned.is_child:
            self._waiting[workload] = given[most:]
        return planned, given[:most]

    def put_back(self, workload: str, starts: Sequence[str]) -> None:
        """Returns the start candidates of a lost round to the queue; the next round begins with them."""
        self._waiting.setdefault(workload, [])[:0] = starts

    def _with_sources(
        self, planned: Round, learned: dict[str, float], given: list[str]
    ) -> tuple[Round, list[str]]:
        """The round and its start candidates, the sources' included; adds known latencies to `learned`."""
        search = planned.search
        for start in (start for source in self._sources for start in source.starts(search.task)):
            if start.latency_s is not None:
                learned.setdefault(start.trace, start.latency_s)
            elif start.alone:
                return replace(planned, budget=replace(planned.budget, search=False)), [start.trace]
            elif not search.rounds:
                given.append(start.trace)
        return planned, given

    def _worthwhile(self, planned: Round, given: list[str]) -> list[str]:
        """Templates of an alternative to measure: the fastest template on the same loops, if known.

        Tasks with the same loops have the same templates in the same order, whatever their element-wise
        steps.
        """
        if (like := planned.like) is not None:
            theirs = self._templates.get(like.task.workload_hash, [])
            ran = {trace: s for trace, s in like.loop.latencies_s().items() if math.isfinite(s)}
            fastest = min(ran, key=lambda trace: ran[trace], default=None)
            if fastest in theirs and len(theirs) == len(given):
                return [given[theirs.index(fastest)]]
        return given[:RESIZED_TEMPLATES] if planned.search.role.known_resized else given
