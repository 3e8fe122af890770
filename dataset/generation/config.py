"""Settings of a generation run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...compiler.networks import AS_FASTEST, Lowering
from ...configuration import check_least
from ...errors import UserError
from ..measure import ExecutorConfig, MeasureConfig
from ..sampling.programs import ProgramSamplingConfig
from .noise_probe import NoiseConfig

_MOST_PER_VALID = 2
"""Records per wanted valid record after which a task ends, because many of its programs fail."""


class GenerateConfigError(UserError, ValueError):
    """A setting of the generation run is invalid."""


@dataclass(frozen=True)
class GenerateConfig:
    """Settings of a generation run; conf/generate.yaml describes the fields."""

    dataset: Path
    target: Any = "llvm"
    tasks: int = 100
    records_per_task: int = 60
    only_valid: bool = False
    per_round: int = 20
    task_budget_s: float = 120.0
    budget_s: float | None = None
    max_records: int | None = None
    seed: int = 0
    workers: int | None = None
    samplers: int | None = None
    sampling_timeout_s: float = 600.0
    self_check: bool = True
    check_outputs: float = 0.02
    datasheet: bool = True
    tasks_from: Path | None = None
    networks: list[Any] = field(default_factory=list)
    lowering: Lowering = AS_FASTEST
    task_sampling: dict[str, Any] = field(default_factory=dict)
    program_sampling: ProgramSamplingConfig = field(default_factory=ProgramSamplingConfig)
    noise: NoiseConfig = field(default_factory=NoiseConfig)
    executor: ExecutorConfig = field(default_factory=ExecutorConfig)
    measure: MeasureConfig = field(default_factory=MeasureConfig)

    def __post_init__(self) -> None:
        least = {"tasks": 1, "records_per_task": 1, "per_round": 1, "workers": 1, "samplers": 0, "seed": 0}
        check_least(self, {**least, "max_records": 1}, GenerateConfigError)
        elsewhere = {
            "tasks_from": self.tasks_from,
            "program_sampling.database": self.program_sampling.database,
        }
        for name, value in elsewhere.items():
            if self.networks and value is not None:
                raise GenerateConfigError(
                    f"networks={self.networks} and {name}={value}: use only one source of tasks"
                )
        if self.lowering.demands_winograd:
            raise GenerateConfigError(
                f"lowering.winograd={self.lowering.winograd}: records are of a network's own tasks, not of "
                "alternatives to them; leave it out"
            )
        if self.budget_s is not None and self.budget_s <= 0:
            raise GenerateConfigError(f"budget_s={self.budget_s}: must be positive, or null for no limit")
        if self.sampling_timeout_s <= 0:
            raise GenerateConfigError(f"sampling_timeout_s={self.sampling_timeout_s}: must be positive")
        if not 0 <= self.check_outputs <= 1:
            raise GenerateConfigError(f"check_outputs={self.check_outputs}: must be in [0, 1]")

    def is_enough(self, records: int, valid: int) -> bool:
        """Whether a task with so many records, and so many valid ones among them, needs no more."""
        if not self.only_valid:
            return records >= self.records_per_task
        return valid >= self.records_per_task or records >= _MOST_PER_VALID * self.records_per_task
