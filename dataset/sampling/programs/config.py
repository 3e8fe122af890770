"""Choice and settings of the program sampler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ....compiler.spaces.measurable_space import measurable_space
from ...hardware import Hardware
from .annealing import AnnealingConfig, AnnealingSampler
from .database import DatabaseSampler
from .evolutionary import EvolutionaryConfig
from .random_draws import RandomSampler
from .row_evolution import evolutionary_sampler
from .sampler import ProgramSampler
from .scorer import UNTRAINED, make_scorer
from .setting import SamplerSetting
from .strategy_config import SamplingError

SAMPLERS = ("evolutionary", "annealing", "random", "database")


@dataclass(frozen=True)
class ProgramSamplingConfig:
    """Program sampler by name, with the settings of each; conf/generate.yaml describes the fields."""

    sampler: str = "evolutionary"
    scorer: str = "xgboost"
    checkpoint_scorer: str | None = "foretune.inference.plugins.checkpoint_scorer:load"
    random_share: float = 0.2
    evolutionary: EvolutionaryConfig = field(default_factory=EvolutionaryConfig)
    annealing: AnnealingConfig = field(default_factory=lambda: AnnealingConfig(chains=20, steps=5))
    database: Path | None = None
    max_code: int | None = 6000

    def __post_init__(self) -> None:
        if self.sampler not in SAMPLERS:
            raise SamplingError(
                f"program_sampling.sampler={self.sampler!r}: unknown; use one of {', '.join(SAMPLERS)}"
            )
        if not 0 <= self.random_share <= 1:
            raise SamplingError(f"program_sampling.random_share={self.random_share}: must be in [0, 1]")
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
    setting: SamplerSetting,
    traces: Sequence[str] = (),
    hardware: Hardware | None = None,
) -> ProgramSampler:
    """Create the sampler of a task, with the space, scorer and random share from `config`.

    `traces` are the task's traces for the database sampler. `hardware` is the device, which a pretrained
    scorer needs.

    Raises SamplingError, and NoDesignSpaceError if the task has nothing to tune.
    """
    if config.sampler == "database":
        return DatabaseSampler(setting, traces)
    setting = replace(
        setting,
        space=measurable_space(setting.target, config.max_code),
        random_share=config.random_share,
    )
    if config.sampler == "random":
        return RandomSampler(setting)
    scorer_of = make_scorer(config.scorer, setting.per_round, config.checkpoint_scorer, setting.seed)
    setting = replace(setting, scorer=scorer_of(setting.task, hardware))
    if config.sampler == "annealing":
        return AnnealingSampler(setting, config.annealing)
    return evolutionary_sampler(setting, config.evolutionary)
