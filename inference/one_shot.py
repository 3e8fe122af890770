"""One search with a frozen model, one validation of its best candidates (One-Shot Tuner section 4.2)."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..dataset.measure import MeasureJob, MeasureOutcome, WorkerPool
from ..dataset.program_sampling import ExplorationConfig, ProgramSampler
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
    at no cost. A MetaSchedule candidate costs milliseconds to replay, so these defaults search less.
    """

    population_size: int = 160
    generations: int = 3
    mutation_probability: float = 0.85
    # Share of the validated candidates drawn at random: insurance against a model that is wrong everywhere.
    random_share: float = 0.05
    # Candidates measured, K in the paper.
    top_k: int = 24
    # Validation goes on in batches, best predicted first.
    batch: int = 12
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("population_size", "top_k", "batch"):
            if getattr(self, name) < 1:
                raise OneShotConfigError(f"search.{name}={getattr(self, name)}: must be at least 1")
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
    """What the search of one task found; `validations` are in the order of their predicted scores."""

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
    """Searches once, measures the `top_k` of the search; raises NoDesignSpaceError."""
    started = time.monotonic()
    scored_before = model.candidates_scored
    sampler = ProgramSampler(
        task,
        target,
        scorer=model,
        config=ExplorationConfig(
            population_size=config.population_size,
            generations=config.generations,
            mutation_probability=config.mutation_probability,
            random_share=config.random_share,
        ),
        per_round=config.top_k,
        seed=config.seed,
    )
    candidates = [candidate for _, candidate in sampler.propose()]
    scores = model.predict(sampler.context, candidates)
    order = np.argsort(-scores, kind="stable")
    searched = time.monotonic()

    validations: list[Validation] = []
    best_s = math.inf
    for start in range(0, len(order), config.batch):
        chosen = order[start : start + config.batch]
        jobs = [MeasureJob(candidate_module_json(candidates[i]), best_s) for i in chosen]
        for i, outcome in zip(chosen, pool.measure(jobs), strict=True):
            validations.append(Validation(candidates[i], float(scores[i]), outcome))
            best_s = min(best_s, outcome.latency_s)
    return OneShotResult(
        validations=validations,
        candidates_scored=model.candidates_scored - scored_before,
        search_s=searched - started,
        measure_s=time.monotonic() - searched,
    )
