"""Accuracy of trees by grouping of tasks: Table 2 and Figures 1 and 2 of FamilySeer on our records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from foretune.dataset.features.table import LabelledFeatures
from foretune.models.architectures.gbdt import GbdtConfig, GbdtPredictor
from foretune.models.metrics.task_metrics import pairwise_accuracy, scores_from_latency
from numpy.typing import NDArray

from . import GROUPINGS

TRAINED = 0.75
"""Share of each task's programs that models are trained on; the others test them."""


class Grouped:
    """Programs of tasks, split once, and trees over groups of them, fitted as in MetaSchedule."""

    def __init__(self, features: LabelledFeatures, seed: int) -> None:
        self._features = features
        self.group = np.unique(np.asarray(features.workload_hash), return_inverse=True)[1]
        self._score = scores_from_latency(features.latency_s, self.group)
        rng = np.random.default_rng(seed)
        self._tested = np.zeros(len(self.group), bool)
        for task in range(self.group.max() + 1):
            rows = rng.permutation(np.flatnonzero(self.group == task))
            self._tested[rows[round(TRAINED * len(rows)) :]] = True

    def fitted(self, tasks: Sequence[int]) -> GbdtPredictor:
        """Trees over the training programs of some tasks."""
        rows = np.flatnonzero(np.isin(self.group, tasks) & ~self._tested & np.isfinite(self._score))
        return GbdtPredictor.fit(self._features.features, rows, self._score, config=GbdtConfig(threads=2))

    def accuracy(self, model: GbdtPredictor, task: int) -> float:
        """Share of a task's pairs of test programs that a model orders correctly."""
        rows = np.flatnonzero((self.group == task) & self._tested & np.isfinite(self._score))
        found = model.predict_table(self._features.features, rows)
        return float(pairwise_accuracy(found, self._score[rows]))


def by_grouping(data: Grouped, families: Mapping[str, NDArray[np.str_]]) -> dict[str, list[float]]:
    """Accuracy on each task by grouping; `families` gives the family of each task."""
    found: dict[str, list[float]] = {}
    for grouping in GROUPINGS:
        of_task = families[grouping]
        models = {name: data.fitted(np.flatnonzero(of_task == name)) for name in np.unique(of_task)}
        found[grouping] = [data.accuracy(models[name], task) for task, name in enumerate(of_task)]
    return found


def heat_map(data: Grouped, tasks: Sequence[int]) -> list[list[float]]:
    """Accuracy on each task (column) of the trees of each task alone (row)."""
    models = [data.fitted([task]) for task in tasks]
    return [[data.accuracy(model, task) for task in tasks] for model in models]


def summary(
    accuracies: Mapping[str, Sequence[float]], heat: Sequence[Sequence[float]], families: Sequence[str]
) -> dict[str, Any]:
    """Table 2, and the heat map's means over tasks of one family and of two."""
    every = np.array(heat)
    names = np.array(families)
    same = names[:, None] == names[None]
    own = np.eye(len(names), dtype=bool)
    return {
        "accuracy": {name: float(np.nanmean(values)) for name, values in accuracies.items()},
        "heat_map": {
            "own task": float(np.nanmean(every[own])),
            "same family": float(np.nanmean(every[same & ~own])) if (same & ~own).any() else None,
            "other family": float(np.nanmean(every[~same])) if (~same).any() else None,
        },
    }
