"""Choice and settings of the program sampler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvm.target import Target

from ....compiler.spaces.measurable_space import measurable_space
from ....compiler.task import Task
from ...hardware import Hardware
from .annealing import AnnealingConfig, AnnealingSampler
from .database import DatabaseSampler
from .evolutionary import EvolutionConfig
from .random_draws import RandomSampler
from .row_evolution import evolutionary_sampler
from .sampler import ProgramSampler, SamplingError
from .scorer import UNTRAINED, make_scorer

SAMPLERS = ("evolutionary", "annealing", "random", "database")


@dataclass(frozen=True)
class ProgramSamplingConfig:
    """Program sampler by name, with the settings of each; conf/generate.yaml describes the fields."""

    sampler: str = "evolutionary"
    scorer: str = "xgboost"
    checkpoint_scorer: str | None = "foretune.inference.plugins.checkpoint_scorer:load"
    evolutionary: EvolutionConfig = field(default_factory=EvolutionConfig)
    annealing: AnnealingConfig = field(default_factory=AnnealingConfig)
    database: Path | None = None
    max_code: int | None = 6000

    def __post_init__(self) -> None:
        if self.sampler not in SAMPLERS:
            raise SamplingError(
                f"program_sampling.sampler={self.sampler!r}: unknown; use one of {', '.join(SAMPLERS)}"
            )
        if self.max_code is not None and self.max_code < 1:
            raise SamplingError(
                f"program_sampling.max_code={self.max_code}: must be at least 1, or null for no limit"
            )
        if self.sampler == "database" and self.database is None:
            raise SamplingError(
                "program_sampling.database is missing: set it to the folder with database_workload.json and "
                "database_tuning_record.json, or use another program_sampling.sampler"
            )

    @property
    def uses_scorer(self) -> bool:
        """Whether a scorer guides the sampler."""
        return self.sampler in ("evolutionary", "annealing")

    @property
    def uses_checkpoint(self) -> bool:
        """Whether the scorer is a pretrained checkpoint."""
        return self.uses_scorer and self.scorer not in UNTRAINED

    @property
    def label(self) -> str:
        """Sampler name in the records."""
        return f"{self.sampler}/{Path(self.scorer).name}" if self.uses_scorer else self.sampler


def make_program_sampler(
    config: ProgramSamplingConfig,
    task: Task,
    target: Target,
    *,
    per_round: int,
    seed: int,
    traces: Sequence[str] = (),
    hardware: Hardware | None = None,
    threads: int | None = None,
) -> ProgramSampler:
    """Create the sampler of a task; `traces` are the task's traces for the database sampler.

    `hardware` is the device, which a pretrained scorer needs. `threads` replay candidates, by default one a
    core; with a single one, a seed fixes the candidates.

    Raises SamplingError, and NoDesignSpaceError if the task has nothing to tune.
    """
    if config.sampler == "database":
        return DatabaseSampler(task, target, traces=traces, per_round=per_round, seed=seed)
    space = measurable_space(target, config.max_code)
    if config.sampler == "random":
        return RandomSampler(task, target, per_round=per_round, seed=seed, space=space, threads=threads)
    scorer = make_scorer(config.scorer, per_round, config.checkpoint_scorer, seed)(task, hardware)
    common: dict[str, Any] = {"scorer": scorer, "per_round": per_round, "seed": seed}
    if config.sampler == "annealing":
        return AnnealingSampler(task, target, config=config.annealing, space=space, threads=threads, **common)
    return evolutionary_sampler(
        task, target, config=config.evolutionary, space=space, threads=threads, **common
    )
