"""One training: from labelled features to a checkpoint and its metrics.

`correct_scale` corrects the scale of predicted efficiencies on validation tasks. A ranking loss is content
with any increasing function of the target. Networks that are fitted with one stretch the differences between
programs, so that predicted latencies spread too far, and a mean of several models follows the one that
stretches most.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ...compiler.host.locks import LockedError, locked
from ...configuration import ConfigError, as_json
from ...dataset.features.table import LabelledFeatures
from ...dataset.records.program_pool import measuring_s
from ...files import write_whole
from ...models.architectures.cost_model import CostModel, Predictor
from ...models.architectures.ensemble import EnsembleCostModel, members_of
from ...models.checkpoints.checkpoint import Checkpoint, load_checkpoint, refuse_to_overwrite, save_checkpoint
from ...models.metrics.calibration import Calibration
from ...models.metrics.task_metrics import Metrics
from ...models.scaling.target import TargetConfig
from ...wording import counted, part_of
from .config import TrainConfig
from .datamodule import CostModelData
from .fit import LAST, is_main_process
from .members import FitConfig, fit_members, new_members, train_only
from .outcome import Outcome
from .run_card import SPLIT_PARTS, CardFacts, run_card

log = logging.getLogger(__name__)

CONFIG = "config.json"

LOCK = ".lock"
"""File in a run's folder that the training locks."""


@dataclass(frozen=True)
class TrainResult:
    """Folder and metrics of a trained checkpoint; `epochs` is the sum over all members."""

    checkpoint_dir: Path
    metrics: dict[str, Metrics]
    epochs: int
    seconds: float
    calibration: dict[str, Calibration] = field(default_factory=dict)  # of a model that predicts a variance


def train_model(config: TrainConfig, data: LabelledFeatures, feature_version: str) -> TrainResult:
    """Trains on `data`, keeps the best epoch by validation, and writes checkpoint, metrics and config.

    The seed determines split, initialisation and batches, and on one CPU the result, also of a training that
    was interrupted. The members of an ensemble are trained in sequence on the same records.

    Raises:
      ConfigError: another process trains in the folder, or the settings do not fit.
    """
    refuse_to_overwrite(config.checkpoint_dir)
    with alone_in(config.run_dir):
        return _trained(config, data, feature_version)


@contextmanager
def alone_in(run_dir: Path) -> Iterator[None]:
    """Lets no other process train in a run's folder during the block.

    Raises:
      ConfigError: another process does.
    """
    with ExitStack() as stack:
        if is_main_process():  # the processes of one training share a folder
            run_dir.mkdir(parents=True, exist_ok=True)
            try:
                stack.enter_context(locked(run_dir / LOCK))
            except LockedError as error:
                raise ConfigError(
                    f"run_dir={run_dir}: another run ({error}) is training in it; wait for it, stop it, or "
                    "name another folder with hydra.run.dir"
                ) from error
        yield


def _trained(config: TrainConfig, data: LabelledFeatures, feature_version: str) -> TrainResult:
    if config.trainer.threads is not None:
        torch.set_num_threads(config.trainer.threads)
    before = load_checkpoint(config.start_from, feature_version) if config.start_from else None
    if before:
        config = replace(config, model=before.card.model, target=before.card.target)
    _open_folder(config)

    started = time.monotonic()
    records = CostModelData(data, config.split, config.target, config.data, config.seed, before)
    if before:
        members = members_of(before.predictor.model)
    else:
        members = new_members(config.model, records.normaliser.dims, config.seed)
    train_only(members, config.train_only)
    _log_start(config.model.title, members, records)
    trained = fit_members(members, records, _fit_config(config), config.run_dir)
    if not config.train_only:
        correct_scale(members, records, config.target)

    model = members[0] if len(members) == 1 else EnsembleCostModel(members)
    outcome = Outcome.of(model, config.target, records)
    seconds = time.monotonic() - started + sum(of_member.earlier_s for of_member in trained)
    epochs = sum(of_member.epochs for of_member in trained)
    facts = _card_facts(config, feature_version, before, epochs, seconds)
    _write(config, model, facts, records, outcome, before)
    return TrainResult(config.checkpoint_dir, outcome.metrics, epochs, seconds, outcome.calibration)


def _open_folder(config: TrainConfig) -> None:
    """Makes the run's folder and writes the settings into it.

    Raises:
      ConfigError: an interrupted training is to be resumed, and the folder has none with these settings.
    """
    config.run_dir.mkdir(parents=True, exist_ok=True)
    if config.resume:
        _check_interrupted(config)
    if is_main_process():
        write_whole(config.run_dir / CONFIG, json.dumps(as_json(config), indent=2) + "\n")


def _check_interrupted(config: TrainConfig) -> None:
    """Raises ConfigError unless `run_dir` has a run with the same settings."""
    before = config.run_dir / CONFIG
    if not (before.is_file() and any(config.run_dir.glob(f"**/{LAST}"))):
        raise ConfigError(
            f"resume=true, but {config.run_dir} has no interrupted run: name its folder with hydra.run.dir"
        )
    old, new = json.loads(before.read_text(encoding="utf-8")), as_json(config)
    changed = [name for name in new if name not in ("resume", "trainer") and old.get(name) != new[name]]
    if changed:
        raise ConfigError(
            f"resume=true, but {', '.join(changed)} differ from {before}: give the settings of that run, or "
            "start a new one"
        )


def _fit_config(config: TrainConfig) -> FitConfig:
    return FitConfig(
        config.target,
        config.loss,
        config.optimiser,
        config.trainer,
        config.seed,
        config.resume,
        further=config.start_from is not None,
    )


def _card_facts(
    config: TrainConfig, feature_version: str, before: Checkpoint | None, epochs: int, seconds: float
) -> CardFacts:
    return CardFacts(
        feature_version,
        config.model,
        config.target,
        config.split,
        config.seed,
        {
            **{name: asdict(getattr(config, name)) for name in ("data", "loss", "optimiser", "trainer")},
            "start_from": before.card.weights_sha256 if before else None,
            "train_only": config.train_only,
            "notes": config.notes,
            "epochs": epochs,
            "seconds": round(seconds, 1),
            "measuring_s": round(measuring_s(config.dataset), 1),
        },
    )


def _log_start(title: str, members: Sequence[CostModel], records: CostModelData) -> None:
    tasks = {
        part: len(np.unique(records.data.workload_hash[records.split.part(part)])) for part in SPLIT_PARTS
    }
    train, validation, test = tasks.values()
    parameters = sum(p.numel() for member in members for p in member.parameters())
    log.info(
        "training %s (%s) on %s in %s; %s for validation, %d for test",
        title,
        counted(parameters, "parameter"),
        part_of(len(records.train), len(records.data), "record"),
        counted(train, "task"),
        counted(validation, "task"),
        test,
    )


def _write(
    config: TrainConfig,
    model: CostModel,
    facts: CardFacts,
    records: CostModelData,
    outcome: Outcome,
    before: Checkpoint | None,
) -> None:
    """Writes checkpoint and metrics, in one of the processes of a training."""
    card = run_card(facts, records, outcome, before)
    if is_main_process():
        save_checkpoint(config.checkpoint_dir, model, card)
        metrics = json.loads(card.to_json())["metrics"]
        write_whole(config.run_dir / "metrics.json", json.dumps(metrics, indent=2) + "\n")


LEAST_RECORDS = 50
LEAST_TASKS = 3
"""A line through fewer validation records or tasks says little."""


def correct_scale(members: Sequence[CostModel], records: CostModelData, target: TargetConfig) -> None:
    """Rescales each model by the line from its outputs to the targets of validation records that ran.

    Nothing changes for a relative target (only its order matters), for too few records, and for a model whose
    outputs do not rise with the targets or that cannot be rescaled.
    """
    rows = records.split.validation
    rows = rows[np.isfinite(records.data.latency_s[rows])]
    tasks = len(np.unique(records.labels.group[rows]))
    if not target.is_absolute or len(rows) < LEAST_RECORDS or tasks < LEAST_TASKS:
        return
    for member in filter(lambda each: each.is_rescalable, members):
        predictor = Predictor(records.normaliser, member, target)
        outputs = predictor.table_columns(records.data.features, rows)[:, 0]
        slope, offset = line_through(outputs, records.targets.primary[rows])
        if slope > 0:
            log.info("scale corrected by %.3f, and %+.3f", slope, offset)
            member.rescale(slope, offset)


def line_through(x: NDArray[np.float32], y: NDArray[np.float32]) -> tuple[float, float]:
    """Slope and offset of the line with the least squared errors in y; a slope of 0 for equal x."""
    about, wanted = x.astype(np.float64) - x.mean(dtype=np.float64), y.astype(np.float64)
    square = float(about @ about)
    slope = float(about @ wanted) / square if square > 0 else 0.0
    return slope, float(wanted.mean()) - slope * float(x.mean(dtype=np.float64))
