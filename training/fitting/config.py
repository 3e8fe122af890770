"""Settings of `foretune train`, as frozen dataclasses that are also their schema."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...configuration import ConfigError, check_seed
from ...dataset.records.split import SplitConfig
from ...models.architectures.registry import EXPLORERS, ModelConfig
from ...models.losses.losses import LossConfig
from ...models.scaling.target import TargetConfig
from .datamodule import DataConfig
from .module import MONITORS, OptimiserConfig

LOGGERS = ("csv", "tensorboard")


@dataclass(frozen=True)
class TrainerConfig:
    """Length and place of the training; conf/train.yaml describes the fields."""

    max_epochs: int = 60
    patience: int = 12
    monitor: str = "spearman"
    accelerator: str = "cpu"
    devices: int | str = 1
    strategy: str = "auto"
    precision: str = "32-true"
    gradient_clip: float = 1.0
    threads: int | None = None
    progress_bar: bool = True
    loggers: list[str] = field(default_factory=lambda: ["csv"])

    def __post_init__(self) -> None:
        if self.monitor not in MONITORS:
            raise ConfigError(
                f"trainer.monitor={self.monitor!r} is unknown: choose one of {', '.join(MONITORS)}"
            )
        if self.max_epochs < 1 or self.patience < 1:
            raise ConfigError(
                f"trainer.max_epochs={self.max_epochs}, trainer.patience={self.patience}: "
                "set both to 1 or more"
            )
        if self.threads is not None and self.threads < 1:
            raise ConfigError(f"trainer.threads={self.threads}: set it to 1 or more, or to null")
        if set(self.loggers) - set(LOGGERS):
            raise ConfigError(
                f"trainer.loggers={list(self.loggers)}: choose any of {', '.join(LOGGERS)}, as in "
                "trainer.loggers=[csv,tensorboard]"
            )
        if "tensorboard" in self.loggers and find_spec("tensorboard") is None:
            raise ConfigError(
                "trainer.loggers has tensorboard, and the package is not installed: "
                'pip install "foretune[tensorboard]", or leave it out'
            )

    @property
    def mode(self) -> str:
        """Better direction of the monitored metric, "max" or "min"."""
        return "min" if self.monitor == "rmse" else "max"


@dataclass(frozen=True)
class TrainConfig:
    """Settings of `foretune train`; conf/train.yaml describes the fields.

    `notes` are facts about the training for the card, which no file sets.
    """

    dataset: Path
    run_dir: Path
    checkpoint_dir: Path
    model: ModelConfig = field(default_factory=ModelConfig)
    target: TargetConfig = field(default_factory=TargetConfig)
    split: SplitConfig = field(default_factory=SplitConfig)
    data: DataConfig = field(default_factory=DataConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    seed: int = 0
    start_from: str | None = None
    train_only: list[str] = field(default_factory=list)
    resume: bool = False
    notes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_seed("seed", self.seed)
        if self.model.name in EXPLORERS:
            raise ConfigError(
                f"model.name={self.model.name}: an explorer scores no programs; use foretune reinforce"
            )
