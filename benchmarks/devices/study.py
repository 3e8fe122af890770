"""One fit of the study: a model that is trained on all devices but one, and its errors on that one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from foretune.compiler.structure import DRAFT_VERSION
from foretune.configuration import from_hydra
from foretune.dataset.features.roofline import latency_bound_s
from foretune.dataset.features.table import LabelledFeatures
from foretune.dataset.records.split import SplitConfig
from foretune.models.architectures.cost_model import Predictor
from foretune.models.checkpoints.checkpoint import load_checkpoint
from foretune.models.metrics.task_metrics import evaluate, latency_r2, task_mean_s
from foretune.training.fitting.config import TrainConfig
from foretune.training.fitting.labels import Labels
from foretune.training.train import train_model
from hydra import compose
from numpy.typing import NDArray

from .inputs import BASELINE, INPUTS, least_over_reference, with_inputs
from .records import Programs

TRAIN = ("data.keep_slow=true", "trainer.threads=1", "trainer.progress_bar=false")
TREES = "trees"
MODELS = {
    TREES: (
        *("model=trees", "model.arguments.max_depth=6", "model.arguments.learning_rate=0.2"),
        *("model.arguments.rounds=250", "model.arguments.patience=20"),
    ),
    "draft": ("model=draft", "data.batch_size=256", "trainer.max_epochs=30", "trainer.patience=8"),
}
LATENCY = ("target.name=efficiency", "target.min_efficiency=1e-7")
TARGETS = {"latency": LATENCY, "over_roofline": LATENCY, "score": ("target.name=log_score",)}
"""Targets of the training.

`latency` is the logarithm of the seconds, relative to the least latency of the task on one reference device,
and thus equal for all devices. `over_roofline` is relative to the least latency on the record's own device.
"""

RANKING = ("spearman", "pairwise_accuracy", "top_1", "top_5")


@dataclass(frozen=True)
class Fit:
    """A model to train, with its target and inputs, the device that it does not see, and its seed."""

    seed: int
    device: str
    model: str
    target: str
    inputs: str

    @property
    def name(self) -> str:
        return f"{self.model}-{self.target}-{self.inputs}-{self.device}-{self.seed}"

    def words(self) -> list[str]:
        """Settings of `foretune train`."""
        return [*MODELS[self.model], *TARGETS[self.target], *TRAIN]


def fits(devices: Sequence[str], models: Sequence[str], seeds: int) -> Iterator[Fit]:
    """All fits, seed by seed with the devices in turn.

    Networks predict latencies alone, are trained with one seed, and do not repeat the baseline.
    """
    for seed in range(seeds):
        for model in models if seed == 0 else [TREES]:
            for device in devices:
                for target in TARGETS if model == TREES else ("latency",):
                    for inputs in INPUTS:
                        if inputs != BASELINE or (model == TREES and target != "score"):
                            yield Fit(seed, device, model, target, inputs)


def errors(programs: Programs, fit: Fit, extra: Sequence[str] = ()) -> dict[str, Any]:
    """Trains a model on all other devices; returns its metrics by part of the device's tasks (`parts`)."""
    data = with_inputs(programs, fit.inputs)
    scale = np.ones(len(data))
    if fit.target == "over_roofline":
        scale = least_over_reference(programs)
    data = replace(data, latency_s=data.latency_s / scale)
    others = data.take(np.flatnonzero(data.hardware_id != fit.device))
    tested = np.flatnonzero(data.hardware_id == fit.device)
    own = data.take(tested)
    predictor = trained(fit, others, extra)
    made = predictor.predict_all_table(own.features, np.arange(len(own)))
    score = predictor.target.comparable(made.score, Labels.of(own).group)
    predicted_s = None
    if predictor.target.is_absolute:
        bound_s = latency_bound_s(own.features)
        predicted_s = predictor.target.latency_s(made.output, bound_s) * scale[tested]
    measured = replace(own, latency_s=own.latency_s * scale[tested])
    known = np.isin(own.shape, others.shape)
    return {
        name: metrics(measured, score, predicted_s, np.flatnonzero(rows))
        for name, rows in parts(known).items()
        if rows.any()
    }


def parts(known: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
    """Rows of all tasks, of tasks whose shape no training device has, and of the other tasks."""
    return {"all": np.ones_like(known), "unseen": ~known, "seen": known}


def trained(fit: Fit, data: LabelledFeatures, extra: Sequence[str]) -> Predictor:
    """A model trained by the code of `foretune train`; a tenth of the tasks selects its length."""
    with tempfile.TemporaryDirectory() as scratch:
        given = ["dataset=unused", f"run_dir={scratch}", f"seed={fit.seed}", *fit.words(), *extra]
        split = SplitConfig(test=0.0, validation=0.1, seed=fit.seed)
        config = replace(from_hydra(compose("train", given), TrainConfig), split=split)
        train_model(config, data, DRAFT_VERSION)
        return load_checkpoint(Path(config.checkpoint_dir), DRAFT_VERSION).predictor


def metrics(
    data: LabelledFeatures,
    score: NDArray[np.float32],
    predicted_s: NDArray[np.float64] | None,
    rows: NDArray[np.int64],
) -> dict[str, float]:
    """Metrics of predicted scores [n], and of predicted latencies [n] in seconds if there are any.

    `error` is the mean of |ln(predicted / measured)|, `offset` the mean of ln(predicted / measured), and
    `r2` is of ln(latency). `task_r2` is the R2 of each task's measured mean, which no model knows.
    """
    some = data.take(rows)
    group = Labels.of(some).group
    found = evaluate(score[rows], some.latency_s, group)
    named = {"tasks": found.tasks, "records": found.records}
    named |= {name: getattr(found, name) for name in RANKING}
    if predicted_s is None:
        return named
    log_ratio = np.log(predicted_s[rows] / some.latency_s)
    return named | {
        "r2": latency_r2(predicted_s[rows], some.latency_s),
        "error": float(np.abs(log_ratio).mean()),
        "offset": float(log_ratio.mean()),
        "task_r2": latency_r2(task_mean_s(some.latency_s, group), some.latency_s),
    }
