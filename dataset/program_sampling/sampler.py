"""What all program samplers have in common: one task, rounds of proposals, no program twice.

Algorithm 1 is that of One-Shot Tuner, lines 14-25: explore with a cost model, measure, update the cost model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace
from tvm.target import Target

from ...errors import UserError
from ..interruption import interrupts_deferred
from ..measure.job import MeasureOutcome
from ..replay import RefusedError, candidate_trace_json, instantiate
from ..task import Task
from ..tvm_compat import available_cores, design_spaces, make_tune_context

Proposal: TypeAlias = tuple[str, ms.MeasureCandidate]
"""Canonical trace JSON of a candidate, and the candidate."""

_LARGEST_SEED = 2**31 - 2
# Random draws per wanted candidate before a space counts as poor in new ones; on GPUs most are refused.
_DRAWS_PER_NEW = 30


class SamplingError(UserError, ValueError):
    """A setting of program sampling cannot be."""


class ProgramSampler(ABC):
    """Proposes candidates of one task round by round and learns from their outcomes (Algorithm 1).

    What makes two candidates the same is their decisions: those of their canonical trace.
    """

    name: str
    """What records of its candidates carry."""

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
        """`threads` replay candidates, by default one a core; see `make_tune_context`, also for `space`.

        `scorer` is the cost model that guides a sampler which explores.

        Raises NoDesignSpaceError where the task has nothing to tune.
        """
        self.refused: Counter[str] = Counter()
        """How many drawn candidates were no valid program, by cause."""
        self.context = make_tune_context(
            task.mod,
            target,
            seed=seed,
            strategy=strategy,
            space=space,
            name=task.name,
            threads=threads or available_cores(),
            refused=self.refused,
        )
        self.scorer = scorer
        self.spaces = design_spaces(self.context, task.name)
        self.per_round = per_round
        self.rng = np.random.default_rng(seed)
        self._known: set[str] = set()

    def propose(self) -> list[Proposal]:
        """The next round, none of which was proposed or known before; empty when nothing new was found."""
        fresh: dict[str, ms.MeasureCandidate] = {}
        for trace, candidate in self._draw():
            if trace not in self._known:
                fresh.setdefault(trace, candidate)
        self._known.update(fresh)
        return list(fresh.items())

    def know(self, traces: Iterable[str]) -> None:
        """Marks candidates as measured already, so that they are not proposed."""
        self._known.update(traces)

    def learn(self, measured: Sequence[Proposal], outcomes: Sequence[MeasureOutcome]) -> None:
        """Teaches the scorer, where there is one, what was measured (Algorithm 1, line 24)."""
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
        """The candidates of a round, which may repeat and may be known."""

    def _instantiate(self, trace: Trace) -> Proposal | None:
        """The candidate of a trace, its open decisions drawn at random; None, and counted, where refused."""
        try:
            candidate = instantiate(self.context, trace, self._draw_seed())
        except RefusedError as error:
            self.refused[str(error)] += 1
            return None
        return candidate_trace_json(candidate), candidate

    def _draw_seed(self) -> int:
        return int(self.rng.integers(1, _LARGEST_SEED))

    def _draw_random(self) -> Proposal | None:
        """A candidate of a design space with every decision drawn at random; None where it is refused."""
        space = self.spaces[self.rng.integers(len(self.spaces))]
        return self._instantiate(Trace(space.trace.insts, {}))

    def _draw_random_new(self, count: int) -> dict[str, ms.MeasureCandidate]:
        """Up to `count` different random candidates that are not known; fewer where they get rare."""
        found: dict[str, ms.MeasureCandidate] = {}
        for _ in range(_DRAWS_PER_NEW * count):
            if len(found) == count:
                break
            drawn = self._draw_random()
            if drawn is not None and drawn[0] not in self._known:
                found.setdefault(*drawn)
        return found


def best_latency_s(outcomes: Sequence[MeasureOutcome]) -> float:
    """Shortest latency among outcomes in seconds, infinite when all failed."""
    return min((outcome.latency_s for outcome in outcomes), default=float("inf"))
