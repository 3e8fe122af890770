"""Exploration-based sampling (EBS) on the trajectory of MetaSchedule's evolutionary search.

Each round explores with the scorer, measures the proposals and updates the scorer (One-Shot Tuner section
4.1.2 and Algorithm 1, lines 14-25). The paper explores with AutoTVM's simulated annealing, see `annealing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ....compiler.host.interruption import interrupts_deferred
from ....compiler.replay import candidate_trace_json
from ....compiler.task import Task
from ...measure.job import MeasureOutcome
from .counts import DUPLICATE, LOWER_SCORE
from .sampler import ProgramSampler, Proposal, SamplingError

_FAILED_RUN_S = 1e10  # MetaSchedule's latency of a failed candidate


@derived_object
class _CountingScorer(ms.cost_model.PyCostModel):
    """Scorer that counts the programs that it is asked about."""

    def __init__(self, scorer: ms.CostModel) -> None:
        super().__init__()
        self._scorer = scorer
        self.rated = 0

    def predict(
        self, context: ms.TuneContext, candidates: Sequence[ms.MeasureCandidate]
    ) -> NDArray[np.float64]:
        """Scores [n] of the scorer."""
        self.rated += len(candidates)
        return self._scorer.predict(context, list(candidates))

    def update(
        self,
        context: ms.TuneContext,
        candidates: Sequence[ms.MeasureCandidate],
        results: Sequence[ms.runner.RunnerResult],
    ) -> None:
        """Does nothing: the sampler updates the scorer itself."""


@dataclass(frozen=True)
class EvolutionConfig:
    """Settings of the evolution in a round. Small populations balance search time and measurement time."""

    population_size: int = 40
    generations: int = 2
    mutation_probability: float = 0.85
    # Fraction of a round that is drawn at random, so that the dataset contains slow programs, too.
    random_share: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.random_share <= 1:
            raise SamplingError(f"evolutionary.random_share={self.random_share}: must be in [0, 1]")
        if self.population_size < 1 or self.generations < 0:
            raise SamplingError(
                f"evolutionary.population_size={self.population_size} must be at least 1 and "
                f"evolutionary.generations={self.generations} at least 0"
            )


class EvolutionarySampler(ProgramSampler):
    """Sampler that proposes the candidates that MetaSchedule's evolutionary search would measure next."""

    name = "evolutionary"

    def __init__(
        self,
        task: Task,
        target: Target,
        *,
        scorer: ms.CostModel,
        config: EvolutionConfig,
        per_round: int,
        seed: int,
        space: ms.SpaceGenerator | str = "post-order-apply",
        threads: int | None = None,
    ) -> None:
        """See `ProgramSampler`."""
        search = ms.search_strategy.EvolutionarySearch(
            population_size=config.population_size,
            genetic_num_iters=config.generations,
            genetic_mutate_prob=config.mutation_probability,
            init_min_unmeasured=min(50, config.population_size),
            eps_greedy=config.random_share,
        )
        super().__init__(
            task,
            target,
            per_round=per_round,
            seed=seed,
            scorer=scorer,
            strategy=search,
            space=space,
            threads=threads,
        )
        self._database = ms.database.MemoryDatabase()
        self._workload = self._database.commit_workload(self.context.mod)
        self._target = target
        self._counting = _CountingScorer(scorer)
        with interrupts_deferred():
            self.context.pre_tuning(
                max_trials=2**31 - 1,
                num_trials_per_iter=per_round,
                design_spaces=self.spaces,
                database=self._database,
                cost_model=self._counting,
            )

    def _draw(self) -> Iterable[Proposal]:
        """Candidates of one search; random ones replace those that are known or duplicates.

        The programs of a population count as tried in each generation that rates them. Those that the search
        made and did not rate, for lack of a population, are not counted.
        """
        rated, invalid = self._counting.rated, self.rejected.total()
        with interrupts_deferred():
            candidates = list(self.context.generate_measure_candidates() or [])
        traced = {candidate_trace_json(candidate): candidate for candidate in candidates}
        fresh = {trace: candidate for trace, candidate in traced.items() if trace not in self._known}
        rated = self._counting.rated - rated
        self._tried += rated + self.rejected.total() - invalid
        self.passed_over[DUPLICATE] += len(candidates) - len(fresh)
        self.passed_over[LOWER_SCORE] += rated - len(candidates)
        if fresh:
            fresh |= self._draw_random_new(self.per_round - len(fresh), fresh)
        return fresh.items()

    def learn(self, measured: Sequence[Proposal], outcomes: Sequence[MeasureOutcome]) -> None:
        """Add the outcomes to the database of the search and update its scorer."""
        for (_, candidate), outcome in zip(measured, outcomes, strict=True):
            self._database.commit_tuning_record(
                ms.database.TuningRecord(
                    candidate.sch.trace,
                    self._workload,
                    list(outcome.run_secs) or [_FAILED_RUN_S],
                    self._target,
                    candidate.args_info,
                )
            )
        super().learn(measured, outcomes)
