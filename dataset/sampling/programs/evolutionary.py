"""Exploration-based sampling (EBS) on the trajectory of MetaSchedule's evolutionary search.

Each round explores with the scorer, measures the proposals and updates the scorer (One-Shot Tuner section
4.1.2 and Algorithm 1, lines 14-25). The paper explores with AutoTVM's simulated annealing, see `annealing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from ....compiler.host.interruption import interrupts_deferred
from ....compiler.replay import candidate_trace_json
from ...measure.job import MeasureOutcome
from .counts import DUPLICATE, LOWER_SCORE
from .known_candidates import LiveProgram, LivePrograms
from .sampler import ProgramSampler
from .setting import SamplerSetting
from .strategy_config import StrategyConfig

_FAILED_RUN_S = 1e10  # MetaSchedule's latency of a failed candidate


@derived_object
class _CountingScorer(ms.cost_model.PyCostModel):
    """Scorer that counts the programs that it scores."""

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
class EvolutionaryConfig(StrategyConfig):
    """Evolution of a round. Small populations balance search time and measurement time.

    One-Shot Tuner's genetic algorithm is in its section 4.2, Table 2.
    """

    name: str = "evolutionary"
    population_size: int = 40
    generations: int = 2
    mutation_probability: float = 0.85

    def __post_init__(self) -> None:
        self.check_at_least({"population_size": 1, "generations": 0})
        self.check_shares("mutation_probability")


class EvolutionarySampler(ProgramSampler):
    """Sampler that proposes the candidates that MetaSchedule's evolutionary search would measure next."""

    name = "evolutionary"
    needs_scorer = True
    scorer: ms.CostModel

    def __init__(self, setting: SamplerSetting, config: EvolutionaryConfig) -> None:
        """See `ProgramSampler`."""
        search = ms.search_strategy.EvolutionarySearch(
            population_size=config.population_size,
            genetic_num_iters=config.generations,
            genetic_mutate_prob=config.mutation_probability,
            init_min_unmeasured=min(50, config.population_size),
            eps_greedy=setting.random_share,
        )
        super().__init__(setting, search)
        self._database = ms.database.MemoryDatabase()
        self._workload = self._database.commit_workload(self.context.mod)
        self._target = setting.target
        self._counting = _CountingScorer(self.scorer)
        with interrupts_deferred():
            self.context.pre_tuning(
                max_trials=2**31 - 1,
                num_trials_per_iter=self.per_round,
                design_spaces=self.spaces,
                database=self._database,
                cost_model=self._counting,
            )

    def _draw(self) -> LivePrograms:
        """Candidates of one search; random ones replace known candidates and duplicates.

        The programs of a population count as tried in each generation that rates them. Programs that the
        search created without rating them, for lack of a population, do not count.
        """
        rated, invalid = self._counting.rated, self.rejected.total()
        with interrupts_deferred():
            candidates = list(self.context.generate_measure_candidates() or [])
        traced = {candidate_trace_json(candidate): candidate for candidate in candidates}
        fresh = {trace: candidate for trace, candidate in traced.items() if trace not in self.known}
        rated = self._counting.rated - rated
        self._tried += rated + self.rejected.total() - invalid
        self.passed_over[DUPLICATE] += len(candidates) - len(fresh)
        self.passed_over[LOWER_SCORE] += rated - len(candidates)
        if fresh:
            fresh |= self._draw_random_new(self.per_round - len(fresh), fresh)
        return fresh

    def learn(self, measured: Sequence[LiveProgram], outcomes: Sequence[MeasureOutcome]) -> None:
        """Add the outcomes to the database of the search and update its scorer."""
        for (_, program), outcome in zip(measured, outcomes, strict=True):
            self._database.commit_tuning_record(
                ms.database.TuningRecord(
                    program.sch.trace,
                    self._workload,
                    list(outcome.run_secs) or [_FAILED_RUN_S],
                    self._target,
                    program.args_info,
                )
            )
        super().learn(measured, outcomes)
