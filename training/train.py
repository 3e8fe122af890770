"""Training of a cost model on a measured dataset, which writes a checkpoint (`foretune train`)."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
import torch
from omegaconf import DictConfig

from ..configuration import SEEDS, ConfigError, from_hydra
from ..dataset.features.table import LabelledFeatures
from ..models.architectures.cost_model import CostModel
from ..models.architectures.ensemble import EnsembleCostModel, members_of
from ..models.architectures.registry import build_model, feature_version_of
from ..models.architectures.trees import TreesCostModel
from ..models.checkpoints.checkpoint import Checkpoint, load_checkpoint, refuse_to_overwrite, save_checkpoint
from ..models.metrics.calibration import Calibration
from ..models.metrics.task_metrics import Metrics
from ..wording import counted
from .evaluation.networks import evaluation_networks, split_by_networks
from .fitting.config import TrainConfig, plain
from .fitting.datamodule import CostModelData
from .fitting.feature_source import load_features
from .fitting.fit import LAST, Trained, fit, is_main_process
from .fitting.freezing import train_only
from .fitting.known_split import split_like_checkpoint
from .fitting.module import CostModelModule
from .fitting.outcome import Outcome, report
from .fitting.run_card import SPLIT_PARTS, data_sha256, run_card
from .fitting.scale_correction import correct_scale
from .fitting.tree_fitting import fit_trees

__all__ = ["LAST", "TrainResult", "data_sha256", "run", "train_model"]

log = logging.getLogger(__name__)

CONFIG = "config.json"
_SEED_STEP = 1_000_003  # between the members of an ensemble, so that small seeds have no member in common


@dataclass(frozen=True)
class TrainResult:
    """Folder and metrics of a trained checkpoint; `epochs` is the sum over all members."""

    checkpoint_dir: Path
    metrics: dict[str, Metrics]
    epochs: int
    seconds: float
    calibration: dict[str, Calibration] = field(default_factory=dict)  # of a model that predicts a variance


def run(config: TrainConfig) -> TrainResult:
    """Reads the dataset of `config`, trains on it and writes a checkpoint.

    Raises:
      UserError: settings, dataset or split are not usable; the message says what to do.
    """
    refuse_to_overwrite(config.checkpoint_dir)
    before = load_checkpoint(config.start_from).card if config.start_from else None
    version = feature_version_of((before or config).model.name)
    data = load_features(config.dataset, version)
    seen = before.split.seen_in(data) if before else ()
    # Tasks that networks share are held out with each of them; the table beside the records lists them.
    networks = evaluation_networks(config.dataset, data)
    split = split_by_networks(split_like_checkpoint(config.split, data), data, networks, seen)
    return train_model(replace(config, split=split), data, version)


def train_model(config: TrainConfig, data: LabelledFeatures, feature_version: str) -> TrainResult:
    """Trains on `data`, keeps the best epoch by validation, and writes checkpoint, metrics and config.

    The seed determines split, initialisation and batches, and on one CPU the result, also of a training that
    was interrupted. The members of an ensemble are trained in sequence on the same records.
    """
    refuse_to_overwrite(config.checkpoint_dir)
    if config.trainer.threads is not None:
        torch.set_num_threads(config.trainer.threads)
    config.run_dir.mkdir(parents=True, exist_ok=True)
    before = load_checkpoint(config.start_from, feature_version) if config.start_from else None
    if before:
        config = replace(config, model=before.card.model, target=before.card.target)
    if config.resume:
        _check_interrupted(config)
    if is_main_process():
        (config.run_dir / CONFIG).write_text(json.dumps(plain(config), indent=2) + "\n", encoding="utf-8")

    started = time.monotonic()
    records = CostModelData(data, config.split, config.target, config.data, config.seed, before)
    members = _members(config, records, before)
    _log_start(config, members, records)
    trained = _train(members, records, config)
    if not config.train_only:
        correct_scale(members, records, config.target)

    model = members[0] if len(members) == 1 else EnsembleCostModel(members)
    outcome = Outcome.of(model, config.target, records)
    seconds = time.monotonic() - started + sum(of_member.earlier_s for of_member in trained)
    epochs = sum(of_member.epochs for of_member in trained)
    card = run_card(config, records, outcome, feature_version, epochs, seconds, before)
    if is_main_process():
        save_checkpoint(config.checkpoint_dir, model, card)
        (config.run_dir / "metrics.json").write_text(
            json.dumps(json.loads(card.to_json())["metrics"], indent=2) + "\n", encoding="utf-8"
        )
    return TrainResult(config.checkpoint_dir, outcome.metrics, epochs, seconds, outcome.calibration)


def _members(config: TrainConfig, records: CostModelData, before: Checkpoint | None) -> list[CostModel]:
    """Models to train: one, or the members of an ensemble."""
    if before:
        members = members_of(before.predictor.model)
    else:
        members = []
        for number, single in enumerate(config.model.singles):
            pl.seed_everything(_seed(config, number), verbose=False)
            members.append(build_model(single, records.normaliser.dims))
    train_only(members, config.train_only)
    return members


def _train(members: list[CostModel], records: CostModelData, config: TrainConfig) -> list[Trained]:
    """Trains each member in its folder; trees have no epochs."""
    trained = []
    for member, (number, folder) in zip(members, enumerate(_folders(config, len(members))), strict=True):
        if len(members) > 1:
            log.info("member %d of %d", number + 1, len(members))
        seed = _seed(config, number)
        pl.seed_everything(seed, verbose=False)
        records.reseed(seed)
        if isinstance(member, TreesCostModel) and not config.start_from:
            fit_trees(member, records, config.target, config.loss, seed)
        elif any(weights.requires_grad for weights in member.parameters()):
            records.set_columns(member.columns)
            module = CostModelModule(member, config.target, config.loss, config.optimiser)
            trained.append(fit(module, records, config.trainer, folder, config.resume))
    return trained


def _seed(config: TrainConfig, member: int) -> int:
    return (config.seed + member * _SEED_STEP) % SEEDS


def _folders(config: TrainConfig, members: int) -> list[Path]:
    """Folder for the epochs of each member."""
    if members == 1:
        return [config.run_dir]
    return [config.run_dir / f"member-{number}" for number in range(members)]


def _log_start(config: TrainConfig, members: list[CostModel], records: CostModelData) -> None:
    log.info(
        "training %s (%s parameters) on %d of %d records in %d tasks; %d tasks for validation, %d for test",
        config.model.title,
        f"{sum(p.numel() for member in members for p in member.parameters()):,}",
        len(records.train),
        len(records.data),
        *(len(np.unique(records.data.workload_hash[records.split.part(part)])) for part in SPLIT_PARTS),
    )


def _check_interrupted(config: TrainConfig) -> None:
    """Raises ConfigError unless `run_dir` has a run with the same settings."""
    before = config.run_dir / CONFIG
    if not (before.is_file() and any(config.run_dir.glob(f"**/{LAST}"))):
        raise ConfigError(
            f"resume=true, but {config.run_dir} has no interrupted run: name its folder with hydra.run.dir"
        )
    old, new = json.loads(before.read_text(encoding="utf-8")), plain(config)
    changed = [name for name in new if name not in ("resume", "trainer") and old.get(name) != new[name]]
    if changed:
        raise ConfigError(
            f"resume=true, but {', '.join(changed)} differ from {before}: give the settings of that run, or "
            "start a new one"
        )


def main(config: DictConfig) -> None:
    """Entry of `foretune train`."""
    settings = from_hydra(config, TrainConfig)
    result = run(settings)
    if not is_main_process():
        return
    trained = f"{counted(result.epochs, 'epoch')} in" if result.epochs else "for"
    wrote = f"trained {trained} {result.seconds:.0f} s; wrote"
    report(result.metrics, result.calibration, wrote, result.checkpoint_dir, settings.dataset)
