"""Settings of `foretune finetune`, as a frozen dataclass that is also their schema."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from ...configuration import ConfigError, check_seed
from ...dataset.records.split import SplitConfig
from ...models.checkpoints.card import Card
from ...models.losses.losses import LossConfig
from ..fitting.config import TrainConfig, TrainerConfig
from ..fitting.datamodule import DataConfig
from ..fitting.module import OptimiserConfig
from .task_choice import ChoiceConfig

MIN_STOPPING_TASKS = 2
"""Least number of tasks to choose the epoch by; with fewer, one task would decide."""

Part = TypeVar("Part", DataConfig, LossConfig)


@dataclass(frozen=True)
class FinetuneConfig:
    """Settings of `foretune finetune`; conf/finetune.yaml describes the fields."""

    checkpoint: str
    dataset: Path
    run_dir: Path
    checkpoint_dir: Path
    hardware: str | None = None
    choice: ChoiceConfig = field(default_factory=ChoiceConfig)
    tasks: list[str] = field(default_factory=list)
    tasks_into: Path | None = None
    records_per_task: int | None = None
    stopping: float = 0.2
    keep: float = 0.5
    freeze_encoder: bool = False
    data: dict[str, Any] = field(default_factory=dict)
    loss: dict[str, Any] = field(default_factory=dict)
    optimiser: OptimiserConfig = field(default_factory=lambda: OptimiserConfig(learning_rate=3e-4))
    trainer: TrainerConfig = field(default_factory=lambda: TrainerConfig(max_epochs=20, patience=5))
    seed: int = 0
    resume: bool = False

    def __post_init__(self) -> None:
        check_seed("seed", self.seed)
        if not 0 <= self.stopping < 1:
            raise ConfigError(f"stopping={self.stopping}: choose a share in [0, 1)")
        if not 0 <= self.keep < 1:
            raise ConfigError(f"keep={self.keep}: choose a share in [0, 1), or 0 to keep nothing")
        if self.records_per_task is not None and self.records_per_task < 1:
            raise ConfigError(
                f"records_per_task={self.records_per_task}: set it to 1 or more, or to null for all"
            )


def training_of(
    config: FinetuneConfig, card: Card, tasks: list[str], seen: Collection[str], hardware: str
) -> TrainConfig:
    """Settings of the training that fine-tunes the model of `card` on the tasks.

    Tasks of `seen`, which the model was trained on, remain training tasks; other tasks choose the epoch.
    """
    fresh = set(tasks) - set(seen)
    held_out = round(config.stopping * len(tasks))
    stops = MIN_STOPPING_TASKS <= held_out <= len(fresh)
    return TrainConfig(
        dataset=config.dataset,
        run_dir=config.run_dir,
        checkpoint_dir=config.checkpoint_dir,
        model=card.model,
        target=card.target,
        split=SplitConfig(test=0.0, validation=config.stopping if stops else 0.0, seed=config.seed),
        data=_as_trained(DataConfig, card.training.get("data", {}), config.data, "data"),
        loss=_as_trained(LossConfig, card.training.get("loss", {}), config.loss, "loss"),
        optimiser=config.optimiser,
        trainer=config.trainer,
        seed=config.seed,
        start_from=config.checkpoint,
        train_only=["head"] if config.freeze_encoder else [],
        resume=config.resume,
        notes={
            "few_shot": {
                "hardware_id": hardware,
                "k": len(tasks),
                "method": "given" if config.tasks else config.choice.method,
                "tasks": tasks,
                "records_per_task": config.records_per_task,
                "keep": config.keep,
                "source_hardware_ids": card.data.hardware_ids,
                "source_records": card.data.records,
            }
        },
    )


def _as_trained(schema: type[Part], before: dict[str, Any], changes: dict[str, Any], name: str) -> Part:
    """Part of an earlier training's settings, with changes and without keys that are no longer known."""
    known = {f.name for f in fields(schema)}
    if unknown := sorted(set(changes) - known):
        raise ConfigError(f"{name}.{unknown[0]} is unknown: choose among {', '.join(sorted(known))}")
    return replace(schema(**{key: value for key, value in before.items() if key in known}), **changes)
