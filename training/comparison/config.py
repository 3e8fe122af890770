"""Settings of `foretune compare`, and the contestants that they name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ...configuration import ConfigError, check_seed, from_hydra
from ...dataset.records.split import SplitConfig
from ...models.architectures.gbdt import GbdtConfig
from ...models.checkpoints.checkpoint import CheckpointNotFoundError
from ...models.scaling.target import TargetConfig
from ..fitting.config import TrainConfig
from .contestants import (
    ChanceContestant,
    ModelContestant,
    TrainedContestant,
    TreesContestant,
    load_contestant,
)
from .learning_curve import CurveConfig

KINDS = ("train", "trees", "chance")


@dataclass(frozen=True)
class ContestantConfig:
    """Settings of a contestant; exactly one of `train`, `trees` and `chance` is given.

    `train` contains settings of foretune train that differ from its defaults. Its model is the name of a
    preset, changes of the default preset, or a full model with its name. `trees` contains settings of
    `GbdtConfig`, with `target` as in training. `dataset` is trained on in place of the compared dataset,
    without records of test and validation tasks.
    """

    train: dict[str, Any] | None = None
    trees: dict[str, Any] | None = None
    chance: bool = False
    target: TargetConfig = field(default_factory=TargetConfig)
    dataset: Path | None = None

    def __post_init__(self) -> None:
        given = [self.train is not None, self.trees is not None, self.chance]
        if sum(given) != 1:
            raise ConfigError(f"a contestant has {sum(given)} of {', '.join(KINDS)}: give it exactly one")


@dataclass(frozen=True)
class CompareConfig:
    """Settings of `foretune compare`; conf/compare.yaml describes the fields."""

    dataset: Path
    run_dir: Path
    fits_dir: Path
    models: list[str]
    contestants: dict[str, Any]  # of the fields of ContestantConfig
    split: SplitConfig = field(default_factory=SplitConfig)
    train: dict[str, Any] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=lambda: [0])
    baseline: str = "xgb"
    curve: CurveConfig = field(default_factory=CurveConfig)
    title: str = "Cost models compared"
    test_dataset: Path | None = None
    budget_s: float | None = None

    def __post_init__(self) -> None:
        if not self.models or not self.seeds:
            raise ConfigError("models and seeds must not be empty: name at least one of each")
        for name in ("models", "seeds"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise ConfigError(f"{name}={values} contains a value twice: give each once")
        for seed in self.seeds:
            check_seed("seeds", seed)
        if self.budget_s is not None and self.budget_s <= 0:
            raise ConfigError(f"budget_s={self.budget_s}: set it above 0, or to null for no limit")
        if unknown := sorted(set(self.curve.models) - set(self.models)):
            raise ConfigError(f"curve.models: {unknown[0]!r} is not among models={self.models}")
        for name in self.contestants:
            self.contestant(name)
        for name in self.curve.models:
            if self.trains_elsewhere(name):
                raise ConfigError(f"curve.models: {name!r} is trained on its own dataset: leave it out")

    def contestant(self, name: str) -> ContestantConfig | None:
        """Contestant of that name, or None; raises ConfigError for invalid settings."""
        if name not in self.contestants:
            return None
        try:
            # OmegaConf treats a frozen dataclass inside a mapping as read-only, so each is read separately.
            return from_hydra(OmegaConf.create(self.contestants[name]), ContestantConfig)
        except ConfigError as error:
            raise ConfigError(f"contestants.{name}: {error}") from error

    def trains_elsewhere(self, name: str) -> bool:
        """Whether a contestant has its own training dataset."""
        found = self.contestant(name)
        return found is not None and found.dataset is not None

    def curve_models(self) -> list[str]:
        """Contestants of the learning curves: those whose predictions depend on the training data."""
        if self.curve.models:
            return list(self.curve.models)
        known = {name: self.contestant(name) for name in self.models}
        return [name for name, found in known.items() if found and not found.chance and not found.dataset]


TrainSettings = Callable[[str, Mapping[str, Any]], TrainConfig]
"""Function of a contestant's name and settings that adds the defaults of foretune train."""


def contestants_of(
    config: CompareConfig, train_settings: TrainSettings, feature_version: str
) -> list[ModelContestant]:
    """Contestants in the order of `models`.

    Raises:
      ConfigError: foretune train would refuse the settings of a contestant, or a name is neither a contestant
        nor a checkpoint.
      CheckpointError: a checkpoint cannot be used.
    """
    return [_contestant(name, config, train_settings, feature_version) for name in config.models]


def _contestant(
    name: str, config: CompareConfig, train_settings: TrainSettings, feature_version: str
) -> ModelContestant:
    chosen = config.contestant(name)
    if chosen is None:
        try:
            return load_contestant(name, feature_version)
        except CheckpointNotFoundError as error:
            known = ", ".join(config.contestants)
            raise ConfigError(f"models: {name!r} is not a contestant ({known}), and {error}") from error
    if chosen.trees is not None:
        try:
            trees = from_hydra(OmegaConf.create(chosen.trees), GbdtConfig)
        except ConfigError as error:
            raise ConfigError(f"contestants.{name}.trees: {error}") from error
        return TreesContestant(name, trees, chosen.target)
    if chosen.train is not None:
        return TrainedContestant(name, train_settings(name, deep_merge(config.train, chosen.train)))
    return ChanceContestant(name)


def deep_merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Union of nested mappings, in which values of the second override those of the first."""
    merged = dict(first)
    for key, value in second.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = deep_merge(merged[key], value) if both else value
    return merged
