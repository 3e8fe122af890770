"""Candidates of a reuse search to measure: all of them step by step, or the best according to a model."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence

import numpy as np
from tvm.s_tir import meta_schedule as ms

from ....compiler.replay import RejectedError, candidate_trace_json, replay_or_reject
from ....compiler.structure.space import SketchSpace
from ....dataset.sampling.programs import LiveProgram
from ....dataset.sampling.programs.counts import DUPLICATE, CandidateCounts
from ...strategies.draft.drafts import Draft, measuring_cost_s
from ...strategies.draft.model import Rater
from ...strategies.draft.pool import DraftPool
from .hierarchical import Search
from .programs import Row, nest_of
from .search import ReuseSearch


class Ranking(ABC):
    """Proposes the candidates of a reuse search."""

    def __init__(self, search: ReuseSearch, context: ms.TuneContext) -> None:
        self._search: Search = search.search
        self._space: SketchSpace = search.space
        self._context = context
        self._rejected: Counter[str] = Counter()
        self._tried = self._proposed = 0
        self._visited: set[Row] = set()

    @property
    def counts(self) -> CandidateCounts:
        """Counts of the candidates so far; candidates that the search visited count as drafted."""
        return CandidateCounts(len(self._visited), self._tried, self._proposed, self._rejected)

    @abstractmethod
    def propose(self, count: int, known: Container[str]) -> list[LiveProgram]:
        """Up to `count` candidates that are not known; empty when the search is over."""

    def learn(self, latencies_s: Mapping[str, float]) -> None:  # noqa: B027  # models ignore latencies
        """Receives latencies in seconds by trace, inf for a failure."""

    def _trace(self, row: Row) -> str:
        return self._space.traces(self._space.choices(np.array([row])))[0]

    def _replay(self, trace: str) -> LiveProgram | None:
        """The program of a trace; if it is rejected, None, and the rejection is counted."""
        self._tried += 1
        try:
            candidate = replay_or_reject(self._context, trace)
        except RejectedError as error:
            self._rejected[str(error)] += 1
            return None
        return LiveProgram(candidate_trace_json(candidate), candidate)

    def _handed_on(
        self, found: LiveProgram, known: Container[str], taken: dict[str, ms.MeasureCandidate]
    ) -> None:
        if found[0] in known or found[0] in taken:
            self._rejected[DUPLICATE] += 1
        else:
            taken[found[0]] = found[1]
            self._proposed += 1


class MeasuredRanking(Ranking):
    """Algorithm 1 as published: every candidate of a step is measured before the next step.

    A proposed candidate that is not measured by the next proposal counts as a failure.
    """

    def __init__(self, search: ReuseSearch, context: ms.TuneContext) -> None:
        super().__init__(search, context)
        self._step: list[Row] | None = next(self._search, None)
        self._programs: dict[Row, str | None] = {}
        """Trace of each replayed candidate; None for a rejected one."""
        self._latencies_s: dict[str, float] = {}

    def propose(self, count: int, known: Container[str]) -> list[LiveProgram]:
        """See Ranking."""
        taken: dict[str, ms.MeasureCandidate] = {}
        while self._step is not None and not taken:
            self._visited.update(self._step)
            for row in self._step:
                if row not in self._programs and len(taken) < count:
                    found = self._replay(self._trace(row))
                    self._programs[row] = None if found is None else found[0]
                    if found is not None:
                        self._handed_on(found, known, taken)
            if not taken:
                self._advance()
        return [LiveProgram(*item) for item in taken.items()]

    def learn(self, latencies_s: Mapping[str, float]) -> None:
        """See Ranking."""
        self._latencies_s |= latencies_s

    def _advance(self) -> None:
        assert self._step is not None
        costs = {row: self._latencies_s.get(self._programs[row] or "", math.inf) for row in self._step}
        try:
            self._step = self._search.send(costs)
        except StopIteration:
            self._step = None


class DraftRanking(Ranking):
    """All candidates of the search, ranked by the draft model, which also decides the search's steps."""

    def __init__(self, search: ReuseSearch, context: ms.TuneContext, rater: Rater, pool: DraftPool) -> None:
        """`pool` is an empty pool whose surrogate chooses candidates."""
        super().__init__(search, context)
        self._pool = pool
        self._visited |= visited(self._search, lambda rows: (-rater(np.array(rows))).tolist())
        rows = sorted(self._visited)
        if rows:
            scores, embeddings = rater.with_embeddings(np.array(rows))
            costs_s = measuring_cost_s(nest_of(self._space.sketch, rows))
            pool.add(
                Draft(self._trace(row), float(score), embedding, float(cost_s))
                for row, score, embedding, cost_s in zip(rows, scores, embeddings, costs_s, strict=True)
            )

    def propose(self, count: int, known: Container[str]) -> list[LiveProgram]:
        """See Ranking."""
        taken: dict[str, ms.MeasureCandidate] = {}
        while len(taken) < count and (drafts := self._pool.take(count - len(taken))):
            for draft in drafts:
                if (found := self._replay(draft.trace)) is not None:
                    self._handed_on(found, known, taken)
        return [LiveProgram(*item) for item in taken.items()]


class ScoreRanking(Ranking):
    """All candidates, ranked by the cost model for replayed programs; used if no draft model is available."""

    def __init__(self, search: ReuseSearch, context: ms.TuneContext, scorer: ms.CostModel) -> None:
        super().__init__(search, context)
        self._scorer = scorer
        self._scores: dict[str, float] = {}
        self._left: dict[str, ms.MeasureCandidate] = {}
        self._visited |= visited(self._search, self._costs)

    def propose(self, count: int, known: Container[str]) -> list[LiveProgram]:
        """See Ranking."""
        taken: dict[str, ms.MeasureCandidate] = {}
        for trace in sorted(self._left, key=lambda trace: (-self._scores[trace], trace)):
            if len(taken) < count:
                self._handed_on(LiveProgram(trace, self._left.pop(trace)), known, taken)
        return [LiveProgram(*item) for item in taken.items()]

    def _costs(self, rows: Sequence[Row]) -> list[float]:
        programs = [self._replay(self._trace(row)) for row in rows]
        fresh = {found[0]: found[1] for found in programs if found and found[0] not in self._scores}
        if fresh:
            scores = self._scorer.predict(self._context, list(fresh.values()))
            self._scores |= dict(zip(fresh, map(float, scores), strict=True))
            self._left |= fresh
        return [math.inf if found is None else -self._scores[found[0]] for found in programs]


def visited(search: Search, costs: Callable[[Sequence[Row]], Sequence[float]]) -> set[Row]:
    """All candidates that a search visits if it receives these costs."""
    seen: dict[Row, float] = {}
    try:
        rows = next(search)
        while True:
            fresh = [row for row in rows if row not in seen]
            if fresh:
                seen |= dict(zip(fresh, costs(fresh), strict=True))
            rows = search.send({row: seen[row] for row in rows})
    except StopIteration:
        return set(seen)
