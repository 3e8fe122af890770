"""Trains a cost model on a measured dataset and writes a checkpoint (`foretune-train`)."""

from __future__ import annotations

import hashlib
import json
import logging
import sys
import time
import warnings
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import hydra
import numpy as np
import pytorch_lightning as pl
import torch
from omegaconf import DictConfig
from pytorch_lightning.callbacks import Callback, EarlyStopping, ModelCheckpoint, RichProgressBar
from pytorch_lightning.loggers import CSVLogger

from ..configuration import ConfigError, from_hydra
from ..dataset.features.table import LabelledFeatures
from ..errors import exits_cleanly
from ..models.card import Card, DataSummary, SplitSummary
from ..models.checkpoint import Checkpoint, CheckpointExistsError, load_checkpoint, save_checkpoint
from ..models.cost_model import Predictor
from ..models.metrics import Metrics, evaluate
from ..models.registry import build_model
from .config import TrainConfig, plain
from .datamodule import CostModelData
from .feature_source import feature_version_of, load_features
from .freezing import train_only
from .module import CostModelModule

log = logging.getLogger(__name__)

CONFIG = "config.json"
LAST = Path("last.ckpt")
_PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class TrainResult:
    """Where the checkpoint is and how it does; metrics by part of the split."""

    checkpoint_dir: Path
    metrics: dict[str, Metrics]
    epochs: int
    seconds: float


def run(config: TrainConfig) -> TrainResult:
    """Reads the dataset of `config`, trains on it and writes a checkpoint.

    Raises:
      UserError: settings, dataset or split are not usable; the message says what to do.
    """
    _refuse_to_overwrite(config)
    version = feature_version_of(config.model.name)
    return train_model(config, load_features(config.dataset, version), version)


def train_model(config: TrainConfig, data: LabelledFeatures, feature_version: str) -> TrainResult:
    """Trains on `data`, keeps the best epoch by validation, and writes checkpoint, metrics and config.

    The seed fixes split, initialisation and batches, and on one CPU the result.
    """
    _refuse_to_overwrite(config)
    if config.trainer.threads is not None:
        torch.set_num_threads(config.trainer.threads)
    config.run_dir.mkdir(parents=True, exist_ok=True)
    resume_from = _interrupted(config) if config.resume else None
    (config.run_dir / CONFIG).write_text(json.dumps(plain(config), indent=2) + "\n", encoding="utf-8")

    started = time.monotonic()
    pl.seed_everything(config.seed, verbose=False)
    before = load_checkpoint(config.start_from, feature_version) if config.start_from else None
    if before:
        config = replace(config, model=before.card.model, target=before.card.target)
    records = CostModelData(data, config.split, config.target, config.data, config.seed, before)
    model = before.predictor.model if before else build_model(config.model, records.normaliser.dims)
    train_only(model, config.train_only)
    log.info(
        "training %s (%s parameters) on %d of %d records in %d tasks; %d tasks for validation, %d for test",
        config.model.name,
        f"{sum(p.numel() for p in model.parameters()):,}",
        len(records.train),
        len(data),
        *(len(np.unique(data.workload_hash[records.split.part(part)])) for part in _PARTS),
    )
    module = CostModelModule(model, config.target, config.loss, config.optimiser)
    epochs = _fit(module, records, config, resume_from)

    predictor = Predictor(records.normaliser, model, config.target)
    metrics = {}
    for part in ("validation", "test"):
        rows = records.split.part(part)
        if np.isfinite(data.latency_s[rows]).any():
            prediction = predictor.predict_table(data.features, rows)
            metrics[part] = evaluate(prediction, data.latency_s[rows], records.labels.group[rows])
    seconds = time.monotonic() - started
    card = _card(config, data, records, metrics, feature_version, epochs, seconds, before)
    save_checkpoint(config.checkpoint_dir, model, card)
    (config.run_dir / "metrics.json").write_text(
        json.dumps(json.loads(card.to_json())["metrics"], indent=2) + "\n", encoding="utf-8"
    )
    return TrainResult(config.checkpoint_dir, metrics, epochs, seconds)


def _fit(
    module: CostModelModule, records: CostModelData, config: TrainConfig, resume_from: Path | None
) -> int:
    """Trains, leaves the best weights in the module, and returns the number of epochs trained."""
    validates = len(records.validation) > 0
    best = last = ModelCheckpoint(config.run_dir, LAST.stem, enable_version_counter=False)
    callbacks: list[Callback] = [last]
    if validates:
        monitor, mode = f"validation/{config.trainer.monitor}", config.trainer.mode
        best = ModelCheckpoint(
            config.run_dir, "best", monitor=monitor, mode=mode, enable_version_counter=False
        )
        callbacks += [best, EarlyStopping(monitor, patience=config.trainer.patience, mode=mode)]
    # A log file or a pipe gets one line an epoch instead of a bar.
    bar = config.trainer.progress_bar and sys.stdout.isatty()
    if bar:
        callbacks.append(RichProgressBar(leave=False))
    trainer = pl.Trainer(
        max_epochs=config.trainer.max_epochs,
        accelerator=config.trainer.accelerator,
        devices=1,
        precision=config.trainer.precision,  # type: ignore[arg-type]  # a Literal of Lightning's
        gradient_clip_val=config.trainer.gradient_clip,
        callbacks=callbacks,
        logger=CSVLogger(config.run_dir, name="log"),
        enable_progress_bar=bar,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        limit_val_batches=1.0 if validates else 0,
        log_every_n_steps=10,
    )
    with warnings.catch_warnings():
        # Advice on loader processes (the rows are in memory already), on folders that exist, and on what
        # Lightning itself calls of torch.
        for category in (UserWarning, FutureWarning):
            warnings.simplefilter("ignore", category)
        trainer.fit(module, datamodule=records, ckpt_path=resume_from, weights_only=True)
    state = torch.load(best.best_model_path, map_location="cpu", weights_only=True)["state_dict"]
    module.load_state_dict(state)
    module.cpu().eval()
    return trainer.current_epoch


def _interrupted(config: TrainConfig) -> Path:
    """The last epoch of the run in `run_dir`, after a check that it had the same settings."""
    last, before = config.run_dir / LAST, config.run_dir / CONFIG
    if not (last.is_file() and before.is_file()):
        raise ConfigError(
            f"resume=true, but {config.run_dir} holds no interrupted run: name its folder with hydra.run.dir"
        )
    old, new = json.loads(before.read_text(encoding="utf-8")), plain(config)
    changed = [name for name in new if name not in ("resume", "trainer") and old.get(name) != new[name]]
    if changed:
        raise ConfigError(
            f"resume=true, but {', '.join(changed)} differ from {before}: give the settings of that run, or "
            "start another one"
        )
    return last


def _refuse_to_overwrite(config: TrainConfig) -> None:
    if config.checkpoint_dir.exists():
        raise CheckpointExistsError(
            f"checkpoint_dir={config.checkpoint_dir} exists: remove it or choose another directory"
        )


def _card(
    config: TrainConfig,
    data: LabelledFeatures,
    records: CostModelData,
    metrics: dict[str, Metrics],
    feature_version: str,
    epochs: int,
    seconds: float,
    before: Checkpoint | None,
) -> Card:
    train = records.train.rows
    tasks = {
        part: [str(task) for task in np.unique(data.workload_hash[records.split.part(part)])]
        for part in _PARTS
    }
    return Card(
        feature_version=feature_version,
        model=config.model,
        target=config.target,
        normaliser=records.normaliser,
        data=DataSummary(
            sha256=data_sha256(data),
            records=len(train),
            tasks=len(np.unique(data.workload_hash[train])),
            hardware_ids=[str(name) for name in np.unique(data.hardware_id[train])],
            operators=[str(name) for name in np.unique(data.operator[train])],
        ),
        split=SplitSummary(
            asdict(config.split),
            sorted({*tasks["train"], *(before.card.split.seen_tasks if before else ())}),
            tasks["validation"],
            tasks["test"],
        ),
        metrics={part: dict(of_part.summary()) for part, of_part in metrics.items()},
        seed=config.seed,
        training={
            **{name: asdict(getattr(config, name)) for name in ("data", "loss", "optimiser", "trainer")},
            "start_from": before.card.weights_sha256 if before else None,
            "train_only": config.train_only,
            "notes": config.notes,
            "epochs": epochs,
            "seconds": round(seconds, 1),
        },
    )


def data_sha256(data: LabelledFeatures) -> str:
    """Hash of the features and labels of a dataset, in the order of its rows."""
    digest = hashlib.sha256()
    for container in (data.features, data):
        for f in fields(container):
            array = getattr(container, f.name)
            if isinstance(array, np.ndarray):
                digest.update(f"{f.name} {array.dtype.kind} {array.shape}".encode())
                content = array if array.dtype.kind != "U" else np.char.encode(array, "utf-8")
                digest.update(np.ascontiguousarray(content).tobytes())
    return digest.hexdigest()


@hydra.main(version_base="1.3", config_path="pkg://foretune.conf", config_name="train")
@exits_cleanly()
def main(config: DictConfig) -> None:
    """Entry point: composes, validates, trains, and says what it wrote."""
    settings = from_hydra(config, TrainConfig)
    result = run(settings)
    # Printed, not logged: a log wraps lines, and these are to be copied.
    for part, metrics in result.metrics.items():
        print(f"{part:10}  {metrics.tasks} tasks, {metrics.records} records  {metrics}")
    print(f"trained {result.epochs} epochs in {result.seconds:.0f} s; wrote {result.checkpoint_dir}")
    print(
        "next:\n"
        f"  foretune-evaluate checkpoint={result.checkpoint_dir} dataset={settings.dataset}\n"
        f"  foretune-tune checkpoint={result.checkpoint_dir} network=resnet18"
    )


if __name__ == "__main__":
    main()
