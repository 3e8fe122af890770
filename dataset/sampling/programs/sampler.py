"""Base class of program samplers: rounds of proposals for one task, without duplicates.

Algorithm 1 refers to One-Shot Tuner, lines 14-25: explore with a cost model, measure, update the cost model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace
from tvm.target import Target

from ....compiler.host.interruption import interrupts_deferred
from ....compiler.replay import RejectedError, candidate_trace_json, instantiate, replay_or_reject
from ....compiler.structure.limits import MAX_CODE
from ....compiler.structure.read_spaces import gpu_limits
from ....compiler.structure.row_space import RowSpace
from ....compiler.task import Task
from ....compiler.tvm_compat import available_cores, design_spaces, make_tune_context
from ....errors import UserError
from ...features.reading import task_reading
from ...measure.job import MeasureOutcome
from .counts import DUPLICATE, CandidateCounts

Proposal: TypeAlias = tuple[str, ms.MeasureCandidate]
"""Canonical trace JSON of a candidate, and the candidate."""

_LARGEST_SEED = 2**31 - 2
# Random draws per wanted candidate before a space counts as exhausted; on GPUs most draws are rejected.
_DRAWS_PER_NEW = 30


class SamplingError(UserError, ValueError):
    """A setting of program sampling is invalid."""


class ProgramSampler(ABC):
    """Sampler that proposes candidates of one task in rounds and learns from their outcomes (Algorithm 1).

    Two candidates are the same if their canonical traces have the same decisions. On a GPU, candidates are
    drawn and changed as rows of decisions within the limits of a thread block (`RowSpace`), so that nearly
    all that are replayed are valid.
    """

    name: str
    """Name of the sampler in records."""

    def __init__(
        self,
        task: Task,
        target: Target,
        *,
        per_round: int,
        seed: int,
        scorer: ms.CostModel | None = None,
        strategy: ms.SearchStrategy | str = "replay-trace",
        space: ms.SpaceGenerator | str = "post-order-apply",
        threads: int | None = None,
    ) -> None:
        """Create the sampler of a task for a target.

        Args:
          per_round: number of candidates of a round.
          scorer: cost model that guides an exploring sampler.
          strategy, space: see `make_tune_context`.
          threads: threads that replay candidates, by default one a core.

        Raises NoDesignSpaceError if the task has nothing to tune.
        """
        self.rejected: Counter[str] = Counter()
        """Number of invalid programs by cause."""
        self.passed_over: Counter[str] = Counter()
        """Number of valid programs that were not proposed, by cause: DUPLICATE, LOWER_SCORE."""
        self._tried = 0
        self._proposed = 0
        self.context = make_tune_context(
            task.mod,
            target,
            seed=seed,
            strategy=strategy,
            space=space,
            name=task.name,
            threads=threads or available_cores(),
            rejected=self.rejected,
        )
        self.scorer = scorer
        self.spaces = design_spaces(self.context, task.name)
        self.per_round = per_round
        self.rng = np.random.default_rng(seed)
        self._known: set[str] = set()

    @cached_property
    def rows(self) -> RowSpace | None:
        """Candidates as rows of decisions; None on a CPU, which rejects few programs."""
        limits = gpu_limits(self.context.target, MAX_CODE)
        if limits is None:
            return None
        return RowSpace.read(self.spaces, task_reading(self.context.mod).structure, limits)

    @property
    def dropped(self) -> Counter[str]:
        """Number of rows of decisions outside the limits of a GPU by cause; they are not replayed."""
        return Counter() if self.rows is None else self.rows.dropped

    def propose(self) -> list[Proposal]:
        """Propose the candidates of the next round, all of them new; empty if none was found."""
        fresh: dict[str, ms.MeasureCandidate] = {}
        for trace, candidate in self._draw():
            if trace in self._known or trace in fresh:
                self.passed_over[DUPLICATE] += 1
            else:
                fresh[trace] = candidate
        return self._handed_on(fresh)

    @property
    def counts(self) -> CandidateCounts:
        """Candidates so far, by what became of them."""
        return CandidateCounts(
            tried=self._tried, proposed=self._proposed, rejected=self.rejected + self.passed_over
        )

    def _handed_on(self, found: dict[str, ms.MeasureCandidate]) -> list[Proposal]:
        """New candidates as proposals, which are known from now on."""
        self._known.update(found)
        self._proposed += len(found)
        return list(found.items())

    def mark_measured(self, traces: Iterable[str]) -> None:
        """Mark candidates as measured, so that they are not proposed."""
        self._known.update(traces)

    def learn(self, measured: Sequence[Proposal], outcomes: Sequence[MeasureOutcome]) -> None:
        """Update the scorer, if there is one, with measured candidates (Algorithm 1, line 24)."""
        if self.scorer is None or not measured:
            return
        results = [
            ms.runner.RunnerResult(run_secs=list(outcome.run_secs) or None, error_msg=outcome.message or None)
            for outcome in outcomes
        ]
        with interrupts_deferred():
            self.scorer.update(self.context, [candidate for _, candidate in measured], results)

    @abstractmethod
    def _draw(self) -> Iterable[Proposal]:
        """Candidates of a round, which may contain duplicates and known ones."""

    def _instantiate(self, trace: Trace) -> Proposal | None:
        """Candidate of a trace with its open decisions drawn at random; None, and counted, if rejected."""
        self._tried += 1
        try:
            candidate = instantiate(self.context, trace, self._draw_seed())
        except RejectedError as error:
            self.rejected[str(error)] += 1
            return None
        return candidate_trace_json(candidate), candidate

    def _replay(self, trace: str) -> Proposal | None:
        """Candidate of a trace with all decisions; None, and counted, if rejected."""
        self._tried += 1
        try:
            candidate = replay_or_reject(self.context, trace)
        except RejectedError as error:
            self.rejected[str(error)] += 1
            return None
        return candidate_trace_json(candidate), candidate

    def _draw_seed(self) -> int:
        return int(self.rng.integers(1, _LARGEST_SEED))

    def _draw_random(self) -> Proposal | None:
        """Candidate with all decisions drawn at random; None if it is rejected."""
        if self.rows is not None:
            drawn = self.rows.draw(self.rng)
            return self._replay(drawn) if isinstance(drawn, str) else drawn and self._instantiate(drawn)
        space = self.spaces[self.rng.integers(len(self.spaces))]
        return self._instantiate(Trace(space.trace.insts, {}))

    def _draw_random_new(self, count: int, taken: Container[str] = ()) -> dict[str, ms.MeasureCandidate]:
        """Up to `count` random candidates that are neither known nor `taken`; fewer if such are rare."""
        found: dict[str, ms.MeasureCandidate] = {}
        for _ in range(_DRAWS_PER_NEW * count):
            if len(found) == count:
                break
            drawn = self._draw_random()
            if drawn is None:
                continue
            if drawn[0] in self._known or drawn[0] in taken or drawn[0] in found:
                self.passed_over[DUPLICATE] += 1
            else:
                found[drawn[0]] = drawn[1]
        return found


def best_latency_s(outcomes: Sequence[MeasureOutcome]) -> float:
    """Shortest latency of outcomes in seconds, +inf if all failed."""
    return min((outcome.latency_s for outcome in outcomes), default=float("inf"))
