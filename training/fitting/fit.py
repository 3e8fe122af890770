"""Training of one model with Lightning: callbacks, loggers, devices, and resuming."""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, EarlyStopping, ModelCheckpoint, RichProgressBar, Timer
from pytorch_lightning.loggers import CSVLogger, Logger, TensorBoardLogger
from pytorch_lightning.utilities import rank_zero_only

from ...configuration import ConfigError
from ...files import write_whole
from ...progress import LINE_EVERY_S
from ...signals import as_interrupted, keeps_handlers
from .config import TrainerConfig
from .datamodule import CostModelData
from .module import CostModelModule

log = logging.getLogger(__name__)

LAST = Path("last.ckpt")
BEST = Path("best.ckpt")
DONE = "done.json"


class Trained(NamedTuple):
    """Epochs of a training, and the seconds that it took before this run resumed it."""

    epochs: int
    earlier_s: float


def fit(
    module: CostModelModule, records: CostModelData, config: TrainerConfig, folder: Path, resume: bool
) -> Trained:
    """Trains the module and loads its best weights.

    `folder` receives `last.ckpt`, `best.ckpt` and the logs. With `resume` the training continues from the
    last epoch in the folder, if there is one; a training that has ended is not repeated.

    Raises:
      ConfigError: Lightning refuses the device settings.
    """
    begun = time.monotonic()
    validates = records.validates
    last = folder / LAST
    if not (resume and _has_ended(folder, config)):
        if not resume:
            for name in (LAST, BEST, DONE):  # files of an earlier run
                (folder / name).unlink(missing_ok=True)
        trainer = _trainer(config, folder, validates)
        with warnings.catch_warnings():
            # Lightning warns about loader processes (the rows are in memory), existing folders, and its own
            # calls of torch.
            for category in (UserWarning, FutureWarning):
                warnings.simplefilter("ignore", category)
            with keyboard_interrupts():
                trainer.fit(
                    module,
                    datamodule=records,
                    ckpt_path=last if resume and last.is_file() else None,
                    weights_only=True,
                )
        if is_main_process():
            write_whole(folder / DONE, json.dumps({"max_epochs": config.max_epochs}) + "\n")
    # Read from the file, as a trainer that spawned its processes does not know them.
    state = torch.load(last, map_location="cpu", weights_only=True)
    took_s = state["callbacks"].get("Timer", {}).get("time_elapsed", {}).get("train", 0.0)
    trained = Trained(int(state["epoch"]) + 1, max(took_s - (time.monotonic() - begun), 0.0))
    kept = folder / (BEST if validates else LAST)
    module.load_state_dict(torch.load(kept, map_location="cpu", weights_only=True)["state_dict"])
    module.cpu().eval()
    return trained


@contextmanager
def keyboard_interrupts() -> Iterator[None]:
    """Raises KeyboardInterrupt if Lightning was interrupted, which would end the process with status 1.

    Takes back Lightning's handler of SIGTERM, which it leaves behind after an error.
    """
    try:
        with keeps_handlers():
            yield
    except SystemExit as end:
        if isinstance(end.__context__, KeyboardInterrupt):
            raise as_interrupted(end.__context__) from None
        raise


def is_main_process() -> bool:
    """Whether this process writes the results of a training that may run in several."""
    return int(getattr(rank_zero_only, "rank", 0)) == 0


def _has_ended(folder: Path, config: TrainerConfig) -> bool:
    """Whether the training in `folder` has ended, and with as many epochs at most."""
    file = folder / DONE
    if not file.is_file():
        return False
    ended = json.loads(file.read_text(encoding="utf-8"))
    return bool(ended["max_epochs"] >= config.max_epochs)


def _trainer(config: TrainerConfig, folder: Path, validates: bool) -> pl.Trainer:
    callbacks: list[Callback] = [Timer(verbose=False)]
    if validates:
        monitor, mode = f"validation/{config.monitor}", config.mode
        callbacks += [
            ModelCheckpoint(folder, BEST.stem, monitor=monitor, mode=mode, enable_version_counter=False),
            EarlyStopping(monitor, patience=config.patience, mode=mode),
        ]
    # After the best one, whose value it stores.
    callbacks.append(ModelCheckpoint(folder, LAST.stem, enable_version_counter=False))
    # A log file or a pipe gets lines instead of a bar.
    bar = config.progress_bar and sys.stdout.isatty()
    if config.progress_bar:
        callbacks.append(RichProgressBar(leave=False) if bar else ProgressLines())
    try:
        return pl.Trainer(
            max_epochs=config.max_epochs,
            accelerator=config.accelerator,
            devices=config.devices,
            strategy=config.strategy,
            # The sampler distributes the batches; each process validates on all tasks, as metrics need them.
            use_distributed_sampler=False,
            precision=config.precision,  # type: ignore[arg-type]  # a Literal of Lightning's
            gradient_clip_val=config.gradient_clip,
            callbacks=callbacks,
            logger=_loggers(config, folder) or False,
            enable_progress_bar=bar,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            limit_val_batches=1.0 if validates else 0,
            log_every_n_steps=10,
        )
    except (ValueError, pl.utilities.exceptions.MisconfigurationException) as error:
        raise ConfigError(
            f"trainer.accelerator={config.accelerator}, trainer.devices={config.devices}, trainer.strategy="
            f"{config.strategy}, trainer.precision={config.precision}: {error}"
        ) from error


class ProgressLines(Callback):
    """Logs the progress of long epochs every few seconds; the module logs the end of each epoch."""

    def __init__(self) -> None:
        self._logged = time.monotonic()

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._logged = time.monotonic()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if time.monotonic() - self._logged >= LINE_EVERY_S:
            self._logged = time.monotonic()
            batches = trainer.num_training_batches
            log.info("epoch %3d  batch %d of %d", trainer.current_epoch, batch_idx + 1, batches)


def _loggers(config: TrainerConfig, folder: Path) -> list[Logger]:
    made: list[Logger] = []
    if "csv" in config.loggers:
        made.append(CSVLogger(folder, name="log"))
    if "tensorboard" in config.loggers:
        made.append(TensorBoardLogger(folder, name="tensorboard"))
    return made
