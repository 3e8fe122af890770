"""A search with a frozen model and the validation of its best candidates (One-Shot Tuner section 4.2)."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..dataset.measure import MeasureJob, MeasureOutcome, WorkerPool
from ..dataset.program_sampling import EvolutionarySampler, ExplorationConfig, best_latency_s
from ..dataset.replay import candidate_module_json
from ..dataset.task import Task
from ..errors import UserError
from .plugin import PretrainedCostModel


class OneShotConfigError(UserError, ValueError):
    """A setting of the One-Shot search cannot be."""


@dataclass(frozen=True)
class OneShotConfig:
    """The search and its validation.

    One-Shot Tuner's Table 2 validates 64 candidates and evolves 512 for 120 steps, which its templates allow
    at no cost. A MetaSchedule candidate costs milliseconds to replay, so these defaults search less, and in
    `rounds`: the best of a round are validated and are the parents that the next one starts from. One round
    is the paper's.
    """

    rounds: int = 2
    # Programs of a round that evolve.
    population_size: int = 80
    generations: int = 3
    mutation_probability: float = 0.85
    # Share of the validated candidates drawn at random: insurance against a model that is wrong everywhere.
    random_share: float = 0.05
    # Candidates measured in all rounds, K in the paper.
    top_k: int = 24
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("population_size", "top_k", "rounds"):
            if getattr(self, name) < 1:
                raise OneShotConfigError(f"search.{name}={getattr(self, name)}: must be at least 1")
        if self.rounds > self.top_k:
            raise OneShotConfigError(
                f"search.rounds={self.rounds}: each validates a candidate at least; use at most "
                f"search.top_k={self.top_k}"
            )
        if self.generations < 0:
            raise OneShotConfigError(f"search.generations={self.generations}: must not be negative")
        for name in ("mutation_probability", "random_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise OneShotConfigError(f"search.{name}={getattr(self, name)}: must be in [0, 1]")


@dataclass(frozen=True)
class Validation:
    """One validated candidate."""

    candidate: ms.MeasureCandidate
    predicted_score: float
    outcome: MeasureOutcome


@dataclass(frozen=True)
class OneShotResult:
    """What the search of one task found; `validations` are in the order of measuring."""

    validations: list[Validation]
    candidates_scored: int
    search_s: float
    measure_s: float

    @property
    def best(self) -> Validation | None:
        """The fastest candidate measured, None where every one failed."""
        fastest = min(self.validations, key=lambda v: v.outcome.latency_s, default=None)
        return fastest if fastest is not None and math.isfinite(fastest.outcome.latency_s) else None


def search_one_shot(
    task: Task, target: Target, model: PretrainedCostModel, pool: WorkerPool, config: OneShotConfig
) -> OneShotResult:
    """Searches and validates in rounds, `top_k` candidates in all; raises NoDesignSpaceError."""
    scored_before = model.candidates_scored
    started = time.monotonic()
    sampler = EvolutionarySampler(
        task,
        target,
        scorer=model,
        config=ExplorationConfig(
            population_size=config.population_size,
            generations=config.generations,
            mutation_probability=config.mutation_probability,
            random_share=config.random_share,
        ),
        per_round=math.ceil(config.top_k / config.rounds),
        seed=config.seed,
    )
    validations: list[Validation] = []
    best_s = math.inf
    measure_s = 0.0
    for _ in range(config.rounds):
        proposed = sampler.propose()[: config.top_k - len(validations)]
        candidates = [candidate for _, candidate in proposed]
        scores = model.predict(sampler.context, candidates)
        measuring = time.monotonic()
        # The best predicted goes first: what turns out slower by far is then cut short.
        order = np.argsort(-scores, kind="stable")
        jobs = [MeasureJob(candidate_module_json(candidates[i]), best_s) for i in order]
        outcomes = pool.measure(jobs)
        measure_s += time.monotonic() - measuring
        sampler.learn([proposed[i] for i in order], outcomes)
        validations += [
            Validation(candidates[i], float(scores[i]), outcome)
            for i, outcome in zip(order, outcomes, strict=True)
        ]
        best_s = min(best_s, best_latency_s(outcomes))
    return OneShotResult(
        validations=validations,
        candidates_scored=model.candidates_scored - scored_before,
        search_s=time.monotonic() - started - measure_s,
        measure_s=measure_s,
    )
