"""Exploration-based sampling (EBS) on the trajectory of MetaSchedule's evolutionary search.

One-Shot Tuner section 4.1.2 and Algorithm 1, lines 14-25: each round explores with the scorer, measures what
it proposes and teaches the scorer. The paper explores by AutoTVM's simulated annealing, see `annealing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..interruption import interrupts_deferred
from ..measure.job import MeasureOutcome
from ..replay import candidate_trace_json
from ..task import Task
from .sampler import ProgramSampler, Proposal, SamplingError

_FAILED_RUN_S = 1e10  # what MetaSchedule itself uses for a candidate without latency


@dataclass(frozen=True)
class ExplorationConfig:
    """Evolution of a round. Small populations keep the search in balance with the measurement."""

    population_size: int = 40
    generations: int = 2
    mutation_probability: float = 0.85
    # Share of a round drawn at random instead of by score, so that the dataset knows bad programs too.
    random_share: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.random_share <= 1:
            raise SamplingError(f"random_share={self.random_share} of evolution: must be in [0, 1]")
        if self.population_size < 1 or self.generations < 0:
            raise SamplingError(
                f"population_size={self.population_size}, generations={self.generations} of evolution: need "
                "at least one program and no negative count"
            )


class EvolutionarySampler(ProgramSampler):
    """Proposes what MetaSchedule's evolutionary search would measure next."""

    name = "evolutionary"

    def __init__(
        self,
        task: Task,
        target: Target,
        *,
        scorer: ms.CostModel,
        config: ExplorationConfig,
        per_round: int,
        seed: int,
        space: ms.SpaceGenerator | str = "post-order-apply",
        threads: int | None = None,
    ) -> None:
        """See ProgramSampler."""
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
        with interrupts_deferred():
            self.context.pre_tuning(
                max_trials=2**31 - 1,
                num_trials_per_iter=per_round,
                design_spaces=self.spaces,
                database=self._database,
                cost_model=scorer,
            )

    def _draw(self) -> Iterable[Proposal]:
        """A search ends with some programs of before or of equal decisions: chance fills up the round."""
        with interrupts_deferred():
            candidates = list(self.context.generate_measure_candidates() or [])
        traced = {candidate_trace_json(candidate): candidate for candidate in candidates}
        fresh = {trace: candidate for trace, candidate in traced.items() if trace not in self._known}
        if fresh:
            fresh |= self._draw_random_new(self.per_round - len(fresh))
        return fresh.items()

    def learn(self, measured: Sequence[Proposal], outcomes: Sequence[MeasureOutcome]) -> None:
        """Tells the search, whose next round starts from the best so far, and its scorer."""
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
