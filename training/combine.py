"""Ensemble of checkpoints that were trained separately on the same records (`foretune combine`).

Models of different kinds have different errors, so the error of their mean is smaller. Separate trainings can
run at the same time on several machines.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ..configuration import ConfigError, from_hydra
from ..dataset.features.table import LabelledFeatures
from ..dataset.records.split import SplitConfig
from ..models.architectures.cost_model import CostModel
from ..models.architectures.ensemble import EnsembleCostModel, members_of
from ..models.architectures.registry import MemberConfig, ModelConfig, feature_version_of
from ..models.checkpoints.card import SCHEMA_VERSION, Card, Provenance
from ..models.checkpoints.checkpoint import (
    Checkpoint,
    load_checkpoint,
    refuse_to_overwrite,
    rounded_to_half,
    save_checkpoint,
)
from .fitting.datamodule import CostModelData, DataConfig
from .fitting.feature_source import load_features
from .fitting.outcome import Outcome, report
from .fitting.run_card import SPLIT_PARTS, data_sha256


@dataclass(frozen=True)
class CombineConfig:
    """Settings of `foretune combine`; conf/combine.yaml describes the fields."""

    checkpoint: list[str]
    dataset: Path
    checkpoint_dir: Path
    half: bool = False

    def __post_init__(self) -> None:
        if len(self.checkpoint) < 2:
            raise ConfigError(
                f"checkpoint={list(self.checkpoint)}: name two or more, as in "
                "checkpoint=[path/to/a,path/to/b]"
            )


def run(config: CombineConfig) -> Outcome:
    """Combines the checkpoints and writes the ensemble with its metrics on the training dataset.

    Raises:
      UserError: a checkpoint cannot be read, or was trained on other records than the first.
    """
    refuse_to_overwrite(config.checkpoint_dir)
    version = feature_version_of(load_checkpoint(config.checkpoint[0]).card.model.name)
    checkpoints = [load_checkpoint(name, version) for name in config.checkpoint]
    _check_alike(checkpoints)
    data = load_features(config.dataset, version)
    return combine(checkpoints, data, config.checkpoint_dir, config.half)


def combine(
    checkpoints: Sequence[Checkpoint], data: LabelledFeatures, directory: Path, half: bool = False
) -> Outcome:
    """Writes the ensemble of checkpoints that were trained on the dataset `data`."""
    first = checkpoints[0].card
    if (found := data_sha256(data)) != first.data.sha256:
        raise ConfigError(
            f"dataset: the checkpoints were trained on records with SHA-256 {first.data.sha256[:12]}..., and "
            f"these have {found[:12]}...: give the dataset of that training"
        )
    split, settings = SplitConfig(**first.split.config), DataConfig(**first.training["data"])
    kinds, members = _members_by_kind(checkpoints)
    model = EnsembleCostModel(members)
    if half:  # before the correction is fitted and metrics are computed
        rounded_to_half(model)
    records = CostModelData(data, split, first.target, settings, first.seed)
    outcome = Outcome.of(model, first.target, records)
    save_checkpoint(directory, model, _card(checkpoints, kinds, outcome))
    return outcome


def _check_alike(checkpoints: Sequence[Checkpoint]) -> None:
    """Raises ConfigError if the checkpoints cannot be combined."""
    first = _shared(checkpoints[0])
    for checkpoint in checkpoints[1:]:
        for what, value in _shared(checkpoint).items():
            if value != first[what]:
                raise ConfigError(
                    f"checkpoint: {checkpoint.path} has another {what} than {checkpoints[0].path}: combine "
                    "checkpoints of the same dataset, split and target"
                )
    started_from = [str(c.path) for c in checkpoints if c.card.training.get("start_from")]
    if started_from:
        raise ConfigError(
            f"checkpoints: {started_from[0]} was trained further from a checkpoint of other records: combine "
            "first, and train the ensemble further"
        )


def _shared(checkpoint: Checkpoint) -> dict[str, Any]:
    card = checkpoint.card
    return {
        "dataset": card.data.sha256,
        "split": {part: card.split.tasks(part) for part in SPLIT_PARTS},
        "target": card.target,
        "choice of features": list(card.normaliser.without),
        "normaliser": card.normaliser.to_json(),
    }


def _members_by_kind(checkpoints: Sequence[Checkpoint]) -> tuple[ModelConfig, list[CostModel]]:
    """Configuration of the ensemble, and its members in that order, grouped by kind."""
    found: dict[str, list[CostModel]] = {}
    kinds: dict[str, MemberConfig] = {}
    for checkpoint in checkpoints:
        members = members_of(checkpoint.predictor.model)
        for single, member in zip(checkpoint.card.model.singles, members, strict=True):
            key = json.dumps([single.name, single.arguments], sort_keys=True)
            found.setdefault(key, []).append(member)
            kinds[key] = MemberConfig(single.name, single.arguments, len(found[key]))
    one, *beside = (kinds[key] for key in found)
    return (
        ModelConfig(one.name, one.arguments, one.members, beside),
        [member for of_kind in found.values() for member in of_kind],
    )


def _card(checkpoints: Sequence[Checkpoint], model: ModelConfig, outcome: Outcome) -> Card:
    """Card of the ensemble: the first card with the model, metrics and members of the ensemble."""
    cards = [checkpoint.card for checkpoint in checkpoints]
    parts = [
        {
            "weights_sha256": card.weights_sha256,
            "model": card.model.title,
            "seed": card.seed,
            "provenance": asdict(card.provenance),
            **card.training,
        }
        for card in cards
    ]
    training = {**cards[0].training, "combined": parts}
    for total in ("epochs", "seconds"):
        training[total] = round(sum(card.training[total] for card in cards), 1)
    return replace(
        cards[0],
        model=model,
        metrics=outcome.figures,
        training=training,
        std_scale=outcome.predictor.std_scale,
        std_floor=outcome.predictor.std_floor,
        provenance=Provenance.of_this_process(),
        schema_version=SCHEMA_VERSION,
    )


def main(config: DictConfig) -> None:
    """Entry of `foretune combine`."""
    settings = from_hydra(config, CombineConfig)
    outcome = run(settings)
    report(outcome.metrics, outcome.calibration, "wrote", settings.checkpoint_dir, settings.dataset)
