"""Training of a cost model on a measured dataset, which writes a checkpoint (`foretune train`)."""

from __future__ import annotations

import os
from dataclasses import replace

from omegaconf import DictConfig

from ..compiler.host.tied import tie_by_kernel
from ..configuration import from_hydra
from ..dataset.records.store import RecordStore
from ..files import check_writable, disk_errors
from ..models.architectures.registry import feature_version_of
from ..models.checkpoints.checkpoint import load_card, load_checkpoint, refuse_to_overwrite
from ..sweep import RunOutcome
from ..wording import counted, duration
from .evaluation.networks import evaluation_networks, split_by_networks
from .fitting.config import TrainConfig
from .fitting.feature_source import load_features
from .fitting.fit import is_main_process
from .fitting.known_split import split_like_checkpoint
from .fitting.outcome import report
from .fitting.run_card import data_sha256
from .fitting.training import TrainResult, train_model
from .interruption import tells_how_to_continue

__all__ = ["TrainResult", "data_sha256", "run", "train_model"]


def run(config: TrainConfig) -> TrainResult:
    """Reads the dataset of `config`, trains on it and writes a checkpoint.

    Raises:
      UserError: settings, dataset or split are not usable; the message names the next step.
    """
    refuse_to_overwrite(config.checkpoint_dir)
    check_writable(config.run_dir, "run_dir", folder=True)
    before = load_checkpoint(config.start_from).card if config.start_from else None
    version = feature_version_of((before or config).model.name)
    data = load_features(config.dataset, version)
    seen = before.split.seen_in(data) if before else ()
    # Tasks that networks share are held out with each of them; the table next to the records lists them.
    networks = evaluation_networks(config.dataset, data)
    split = split_by_networks(split_like_checkpoint(config.split, data), data, networks, seen)
    kept = f"{config.run_dir} keeps the finished epochs, from which resume=true continues"
    with disk_errors(config.run_dir, kept=kept):
        return train_model(replace(config, split=split), data, version)


def check(config: TrainConfig) -> None:
    """Raises UserError for a dataset or checkpoint that does not exist, without reading its data."""
    RecordStore(config.dataset).require()
    if config.start_from:
        load_card(config.start_from)


def main(config: DictConfig) -> RunOutcome | None:
    """Entry of `foretune train`; several runs are compared by the rank correlation on the test tasks."""
    settings = from_hydra(config, TrainConfig)
    if not is_main_process():
        tie_by_kernel(os.getppid())  # Lightning starts a process for each further device
    with tells_how_to_continue(settings.run_dir):
        result = run(settings)
    if not is_main_process():
        return None
    trained = f"{counted(result.epochs, 'epoch')} in" if result.epochs else "for"
    wrote = f"trained {trained} {duration(result.seconds)}; wrote"
    report(result.metrics, result.calibration, wrote, result.checkpoint_dir, settings.dataset)
    part = next((name for name in ("test", "validation") if name in result.metrics), None)
    return RunOutcome(f"{part} Spearman", result.metrics[part].spearman) if part else None
