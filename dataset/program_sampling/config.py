"""Which program sampler a run uses, and with which settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tvm.target import Target

from ..task import Task
from .annealing import AnnealingConfig, AnnealingSampler
from .database import DatabaseSampler
from .evolutionary import EvolutionarySampler, ExplorationConfig
from .random_draws import RandomSampler
from .sampler import ProgramSampler, SamplingError
from .scorer import make_scorer

SAMPLERS = ("evolutionary", "annealing", "random", "database")


@dataclass(frozen=True)
class ProgramSamplingConfig:
    """The sampler by name, and the settings of those that have some."""

    sampler: str = "evolutionary"
    # What guides the two explorations: xgboost or random.
    scorer: str = "xgboost"
    evolutionary: ExplorationConfig = field(default_factory=ExplorationConfig)
    annealing: AnnealingConfig = field(default_factory=AnnealingConfig)
    # Folder of a MetaSchedule JSONDatabase, for the sampler of that name.
    database: Path | None = None

    def __post_init__(self) -> None:
        if self.sampler not in SAMPLERS:
            raise SamplingError(f"program_sampling.sampler={self.sampler!r}: use {', '.join(SAMPLERS)}")
        if self.sampler == "database" and self.database is None:
            raise SamplingError(
                "program_sampling.database is missing: give the folder with database_workload.json and "
                "database_tuning_record.json, or use another program_sampling.sampler"
            )

    @property
    def explores(self) -> bool:
        """Whether a scorer guides it."""
        return self.sampler in ("evolutionary", "annealing")

    @property
    def label(self) -> str:
        """What records carry as their sampler."""
        return f"{self.sampler}/{self.scorer}" if self.explores else self.sampler


def make_program_sampler(
    config: ProgramSamplingConfig,
    task: Task,
    target: Target,
    *,
    per_round: int,
    seed: int,
    traces: Sequence[str] = (),
) -> ProgramSampler:
    """The sampler of a task; `traces` are those that a database has of it.

    Raises SamplingError, and NoDesignSpaceError where the task has nothing to tune.
    """
    if config.sampler == "random":
        return RandomSampler(task, target, per_round=per_round, seed=seed)
    if config.sampler == "database":
        return DatabaseSampler(task, target, traces=traces, per_round=per_round, seed=seed)
    scorer = make_scorer(config.scorer, warm_up=per_round)()
    if config.sampler == "annealing":
        return AnnealingSampler(
            task, target, scorer=scorer, config=config.annealing, per_round=per_round, seed=seed
        )
    return EvolutionarySampler(
        task, target, scorer=scorer, config=config.evolutionary, per_round=per_round, seed=seed
    )
