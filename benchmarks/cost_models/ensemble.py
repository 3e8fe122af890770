"""An ensemble of models trained on the records of a table, in the same way as the shipped one."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from foretune.configuration import from_hydra
from foretune.dataset.features import FEATURE_VERSION
from foretune.models.checkpoints.checkpoint import load_checkpoint
from foretune.training.combine import combine
from foretune.training.fitting.config import TrainConfig
from foretune.training.train import train_model
from hydra import compose, initialize_config_module

from .records import TableRecords

TRAINING = (
    *(
        "target.name=log_score",
        "data.batch_size=256",
        "data.keep_slow=true",
        "loss.rank=0.1",
        "loss.sigma=10",
    ),
    *("loss.offset=0.2", "trainer.progress_bar=false"),
)
"""Settings of the shipped members."""

SEEDLESS = ("trees",)
"""Models that are trained once, independent of the seeds."""


def ensemble(records: TableRecords, options: argparse.Namespace, folder: Path) -> Path:
    """Checkpoint of the models in `options.ensemble` for each seed; models from a stopped call are kept."""
    found = folder / "combined"
    if found.exists():
        return found
    members = []
    for model in options.ensemble:
        for seed in options.seeds[:1] if model in SEEDLESS else options.seeds:
            members.append(_trained(records, options, folder / f"{model}-{seed}", model, seed))
    combine([load_checkpoint(path, FEATURE_VERSION) for path in members], records.data, found)
    return found


def _trained(records: TableRecords, options: argparse.Namespace, folder: Path, model: str, seed: int) -> Path:
    done = folder / "checkpoint"
    if done.exists():
        return done
    own = [word.removeprefix("++").removeprefix("+") for word in options.overrides]
    own = [word.removeprefix("train.") for word in own if word.startswith("train.")]
    if model in SEEDLESS:
        own = [
            word
            for word in own
            if not word.startswith(("trainer.accelerator", "trainer.precision", "model."))
        ]
    resume = any(folder.rglob("last.ckpt"))
    words = [
        *(f"model={model}", "dataset=unused", f"run_dir={folder}", f"seed={seed}", f"resume={resume}"),
        *(f"trainer.max_epochs={options.epochs}", f"trainer.threads={options.threads}", *TRAINING, *own),
    ]
    with initialize_config_module("foretune.conf", version_base="1.3"):
        config = replace(from_hydra(compose("train", words), TrainConfig), split=records.split)
    train_model(config, records.data, FEATURE_VERSION)
    return done
