"""Labels of records: groups of comparable programs, scores, and the choice of training rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...dataset.features.table import LabelledFeatures
from ...errors import UserError
from ...models.metrics.task_metrics import scores_from_latency
from ...wording import counted

SCORE_BINS = 10


class LabelError(UserError, ValueError):
    """The latencies of the records cannot be used as labels."""


@dataclass(frozen=True)
class Labels:
    """Labels with one row per record."""

    group: NDArray[np.int64]  # [n], equal for programs of one task on one device and target
    latency_s: NDArray[np.float64]  # [n] seconds, +inf for a failure
    score: NDArray[np.float64]  # [n] in [0, 1], NaN if no program of the group ran

    @classmethod
    def of(cls, data: LabelledFeatures) -> Labels:
        """Labels of a dataset.

        Raises:
          LabelError: the dataset is empty, a latency is NaN, zero or negative, or no program ran.
        """
        if len(data) == 0:
            raise LabelError("the dataset has no records: generate some with foretune generate")
        bad = np.flatnonzero(~(data.latency_s > 0))
        if len(bad):
            raise LabelError(
                f"latency_s of {counted(len(bad), 'record')} is NaN, zero or negative, the first being "
                f"{data.latency_s[bad[0]]} at row {bad[0]} (task {data.workload_hash[bad[0]]}): "
                "remove those records; a failure is +inf"
            )
        if not np.isfinite(data.latency_s).any():
            raise LabelError(
                "all records are failures: look at their causes with foretune dataset, and generate again"
            )
        group = np.zeros(len(data), np.int64)
        for column in (data.workload_hash, data.hardware_id, data.target):
            names, name = np.unique(column, return_inverse=True)
            group = np.unique(group * len(names) + name, return_inverse=True)[1]
        return cls(group, data.latency_s, scores_from_latency(data.latency_s, group))

    def usable(
        self, rows: NDArray[np.int64], max_slowdown: float, keep_slow: bool, keep_failed: bool
    ) -> NDArray[np.int64]:
        """Rows to train on.

        Leaves out programs more than `max_slowdown` times slower than the best of their task (One-Shot Tuner
        section 5) unless `keep_slow`, failures unless `keep_failed`, and always groups without a program that
        ran.
        """
        score = self.score[rows]
        failed = score == 0
        slow = ~failed & (score * max_slowdown < 1)
        return rows[~np.isnan(score) & (keep_slow | ~slow) & (keep_failed | ~failed)]

    def ranks(self, rows: NDArray[np.int64]) -> bool:
        """Whether a group has two different scores among these rows, so that there is a ranking."""
        known = rows[~np.isnan(self.score[rows])]
        pairs = np.unique(np.stack([self.group[known], self.score[known]], axis=1), axis=0)
        return bool(len(pairs) > len(np.unique(self.group[known])))


def inverse_frequency(score: NDArray[np.float64], bins: int = SCORE_BINS) -> NDArray[np.float64]:
    """Sampling weights [n] with which every occupied bin of scores is drawn equally often.

    Rare fast programs are thus drawn more often (One-Shot Tuner section 4.1.2). The paper does not define the
    frequency; here it is over equal bins of the score.
    """
    of_row = np.minimum((score * bins).astype(np.int64), bins - 1)
    return 1.0 / np.bincount(of_row, minlength=bins)[of_row]
