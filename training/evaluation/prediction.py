"""Predicted scores of a checkpoint, comparable with measured scores for every training target."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...dataset.features.roofline import latency_bound_s
from ...dataset.features.table import LabelledFeatures
from ...models.checkpoints.checkpoint import Checkpoint
from ...models.metrics.task_metrics import latency_r2, task_mean_s
from ..fitting.labels import Labels


def predict(
    checkpoint: Checkpoint, data: LabelledFeatures, rows: NDArray[np.int64]
) -> tuple[NDArray[np.float32], dict[str, Any]]:
    """Predicted scores of some rows, and facts on the model.

    Predicted efficiencies are divided by the best prediction of each task. A model that predicts efficiencies
    also predicts latencies; `latency_r2` is their R2. `task_latency_r2` is the R2 of each task's mean
    latency, which knows nothing of the program.
    """
    predictor = checkpoint.predictor
    made = predictor.predict_all_table(data.features, rows)
    facts: dict[str, Any] = {
        "parameters": sum(weights.numel() for weights in predictor.model.parameters()),
        "without": list(predictor.normaliser.without),
    }
    if predictor.target.is_absolute:
        predicted_s = predictor.target.latency_s(made.output, latency_bound_s(data.features)[rows])
        latency_s, group = data.latency_s[rows], Labels.of(data).group[rows]
        facts["latency_r2"] = latency_r2(predicted_s, latency_s)
        facts["task_latency_r2"] = latency_r2(task_mean_s(latency_s, group), latency_s)
    return predictor.target.comparable(made.score, Labels.of(data).group[rows]), facts
