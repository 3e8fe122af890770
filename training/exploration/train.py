"""Training of an explorer with a pretrained cost model as its environment (`foretune reinforce`)."""

from __future__ import annotations

import hashlib
import json
import logging
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
import torch
from omegaconf import DictConfig
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger

from ...configuration import ConfigError, as_json, from_hydra
from ...dataset.features.table import FeatureTable
from ...files import check_writable, disk_errors, write_whole
from ...models.architectures.explorer import MODES, STATE_VERSION, Explorer
from ...models.architectures.registry import ModelConfig, build_network
from ...models.checkpoints.card import Card, DataSummary, SplitSummary
from ...models.checkpoints.checkpoint import Checkpoint, refuse_to_overwrite, rounded_to_half, save_checkpoint
from ...models.scaling.normaliser import Normaliser
from ...terminal import CommandConsole, say, short_path
from ...wording import counted, duration
from ..fitting.fit import BEST, LAST, keyboard_interrupts
from ..fitting.training import CONFIG, alone_in
from ..interruption import tells_how_to_continue
from .config import ReinforceConfig
from .environment import Environment
from .judging import judge
from .module import LOG_SCORE, ExplorerModule
from .tasks import PARTS, ExplorationTasks, load_tasks, task_space

log = logging.getLogger(__name__)

_FITTED_ON = 32
"""Programs of each training space by which states are normalised."""


@dataclass(frozen=True)
class ReinforceResult:
    """Folder and metrics of a trained explorer."""

    checkpoint_dir: Path
    metrics: dict[str, dict[str, float | None]]
    seconds: float


def run(config: ReinforceConfig) -> ReinforceResult:
    """Reads the tasks of `config`, trains an explorer on them and writes a checkpoint.

    Raises UserError if settings, dataset or environment are not usable; the message names the next step.
    """
    refuse_to_overwrite(config.checkpoint_dir)
    check_writable(config.run_dir, "run_dir", folder=True)
    if config.resume:
        _check_interrupted(config)
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    environment, judge_of = Environment.load(config.environment)
    tasks = load_tasks(config, judge_of.card.split)
    if not tasks.train or not tasks.validation:
        raise ConfigError(
            f"dataset={','.join(map(str, config.dataset))}: {counted(len(tasks.train), 'space')} for "
            f"training and {counted(len(tasks.validation), 'space')} for validation: add datasets that "
            f"{config.environment} was trained on"
        )
    kept = f"{config.run_dir} keeps the finished epochs, from which resume=true continues"
    with disk_errors(config.run_dir, kept=kept):
        return train_explorer(config, environment, judge_of, tasks)


def train_explorer(
    config: ReinforceConfig, environment: Environment, judge_of: Checkpoint, tasks: ExplorationTasks
) -> ReinforceResult:
    """Trains on given tasks, keeps the best epoch by validation, and writes checkpoint, metrics and config.

    `judge_of` is the checkpoint of the environment, which the card names.
    """
    refuse_to_overwrite(config.checkpoint_dir)
    started = time.monotonic()
    write_whole(config.run_dir / CONFIG, json.dumps(as_json(config), indent=2) + "\n")
    states = _states(environment, tasks, config.seed)
    normaliser = Normaliser.fit(states, np.arange(len(states)))
    model = ModelConfig("dqn", {"width": config.width})
    pl.seed_everything(config.seed, verbose=False)
    module = ExplorerModule(build_network(model, normaliser.dims), normaliser, environment, tasks, config)
    _fit(module, config)
    network = module.network.eval()
    rounded_to_half(network)
    explorer = Explorer(normaliser, network)
    metrics = {
        f"{part}, {mode}": judge(
            environment,
            [task_space(found) for found in tasks.part(part)[: config.judging.spaces]],
            explorer,
            config.judging,
            mode,
            config.seed,
        )
        for part in PARTS
        if part != "train"
        for mode in MODES
    }
    seconds = time.monotonic() - started
    card = _card(config, judge_of, tasks, normaliser, model, metrics, seconds)
    save_checkpoint(config.checkpoint_dir, network, card)
    return ReinforceResult(config.checkpoint_dir, metrics, seconds)


def _states(environment: Environment, tasks: ExplorationTasks, seed: int) -> FeatureTable:
    """States of random and of measured programs, at random places of a walk."""
    rng = np.random.default_rng(seed)
    tables = []
    for found in tasks.train:
        space = task_space(found)
        rows = np.concatenate([found.programs[:_FITTED_ON], space.draw(_FITTED_ON, rng)])
        tables.append(environment.observe([space], [rows]).states(float(rng.random())))
    return FeatureTable.concatenate(tables)


def _fit(module: ExplorerModule, config: ReinforceConfig) -> None:
    """Trains for `config.epochs` and loads the weights of the best epoch."""
    folder = config.run_dir
    if not config.resume:
        for name in (LAST, BEST):
            (folder / name).unlink(missing_ok=True)
    trainer = pl.Trainer(
        max_epochs=config.epochs,
        accelerator="cpu",
        gradient_clip_val=config.learning.gradient_clip,
        callbacks=[
            ModelCheckpoint(folder, LAST.stem, enable_version_counter=False, save_on_train_epoch_end=True),
            ModelCheckpoint(
                folder,
                BEST.stem,
                monitor=LOG_SCORE,
                mode="max",
                enable_version_counter=False,
                save_on_train_epoch_end=True,
            ),
        ],
        logger=CSVLogger(folder, name="log"),
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    with warnings.catch_warnings():
        for category in (UserWarning, FutureWarning):  # as in `training.fitting.fit`
            warnings.simplefilter("ignore", category)
        resumed = folder / LAST if config.resume else None
        with keyboard_interrupts():
            trainer.fit(module, ckpt_path=resumed, weights_only=True)
    module.load_state_dict(torch.load(folder / BEST, map_location="cpu", weights_only=True)["state_dict"])


def _card(
    config: ReinforceConfig,
    judge_of: Checkpoint,
    tasks: ExplorationTasks,
    normaliser: Normaliser,
    model: ModelConfig,
    metrics: dict[str, dict[str, float | None]],
    seconds: float,
) -> Card:
    names = {part: sorted({found.workload_hash for found in tasks.part(part)}) for part in PARTS}
    digest = hashlib.sha256()
    for found in tasks.train:
        digest.update(found.workload_hash.encode() + found.programs.tobytes())
    settings = as_json(config)
    return Card(
        feature_version=STATE_VERSION,
        model=model,
        target=judge_of.card.target,
        normaliser=normaliser,
        data=DataSummary(
            sha256=digest.hexdigest(),
            records=sum(len(found.programs) for found in tasks.train),
            tasks=len(names["train"]),
            hardware_ids=sorted({found.hardware.hardware_id for found in tasks.train}),
            operators=sorted({found.operator for found in tasks.train}),
        ),
        split=SplitSummary(
            {"by": "checkpoint", "checkpoint": config.environment, "test_operators": config.test_operators},
            names["train"],
            names["validation"],
            sorted({*names["test"], *names["unseen_operators"]}),
            sorted({found.shape for found in (*tasks.train, *tasks.validation)}),
        ),
        metrics=metrics,
        seed=config.seed,
        training={
            **{name: settings[name] for name in ("reward", "walk", "learning", "judging", "epochs")},
            "modes": list(MODES),
            "environment": {"weights_sha256": judge_of.card.weights_sha256, **asdict(judge_of.card.target)},
            "seconds": round(seconds, 1),
        },
    )


def _check_interrupted(config: ReinforceConfig) -> None:
    """Raises ConfigError unless `run_dir` has a run with the same settings."""
    before = config.run_dir / CONFIG
    if not (before.is_file() and (config.run_dir / LAST).is_file()):
        raise ConfigError(
            f"resume=true, but {config.run_dir} has no interrupted run: name its folder with hydra.run.dir"
        )
    old, new = json.loads(before.read_text(encoding="utf-8")), as_json(config)
    free = ("resume", "epochs", "threads")
    if changed := [name for name in new if name not in free and old.get(name) != new[name]]:
        raise ConfigError(
            f"resume=true, but {', '.join(changed)} differ from {before}: give the settings of that run, or "
            "start a new one"
        )


def main(config: DictConfig) -> None:
    """Entry of `foretune reinforce`."""
    settings = from_hydra(config, ReinforceConfig)
    with alone_in(settings.run_dir), tells_how_to_continue(settings.run_dir):
        result = run(settings)
    console = CommandConsole()
    for part, found in result.metrics.items():
        score, drawn = found["explorer_score"], found["random_score"]
        if score is not None and drawn is not None:
            say(
                console,
                f"{part}: best predicted score {score:.3f}, by random moves "
                f"{found['random_moves_score']:.3f}, of random programs {drawn:.3f}",
            )
    say(console, f"trained in {duration(result.seconds)}; wrote {short_path(result.checkpoint_dir)}")
