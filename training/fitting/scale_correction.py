"""Correction of the scale of predicted efficiencies, on validation tasks.

A ranking loss is content with any increasing function of the target. Networks that are fitted with one
stretch the differences between programs, so that predicted latencies spread too far, and a mean of several
models follows the one that stretches most.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...models.architectures.cost_model import CostModel, Predictor
from ...models.scaling.target import TargetConfig
from .datamodule import CostModelData

LEAST_RECORDS = 50
LEAST_TASKS = 3
"""A line through fewer validation records or tasks says little."""

log = logging.getLogger(__name__)


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
