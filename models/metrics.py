"""How well predicted scores rank the measured programs of each task.

Rows that share a `group` are rivals: programs of one task on one device. With latency l_i in seconds (+inf
for a failure), score s_i = min_j l_j / l_i, prediction p_i (higher is better), all within a group:

- RMSE               sqrt(mean((p_i - s_i)^2)), over all rows
- R2                 1 - sum((p_i - s_i)^2) / sum((s_i - mean(s))^2), over all rows
- Spearman           rank correlation of p and s, averaged over groups
- pairwise accuracy  share of the pairs with s_i != s_j that p orders alike, a tie of p counting one half,
                     averaged over groups
- top-k score        min_j l_j / min over the k highest p of l_i: 1 when the best program is among them,
                     averaged over groups with optional weights. Ties of p are broken against the model, so
                     that a constant predictor earns nothing by the order of rows.

A group whose programs all failed has no score and is left out; so is, for Spearman and pairwise accuracy, a
group with fewer than two different scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

FloatArray = NDArray[np.floating[Any]]
TOP_K = (1, 5)


def group_rows(group: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yields the row indices of each group, by ascending group and row."""
    order = np.argsort(group, kind="stable")
    boundaries = np.flatnonzero(np.diff(group[order])) + 1
    yield from (rows for rows in np.split(order, boundaries) if len(rows))


def scores_from_latency(latency_s: NDArray[np.float64], group: NDArray[np.int64]) -> NDArray[np.float64]:
    """Scores in (0, 1], 0 for a failure, NaN throughout a group that only has failures; all [n]."""
    scores = np.full(len(latency_s), np.nan)
    for rows in group_rows(group):
        best = latency_s[rows].min()
        if np.isfinite(best):
            scores[rows] = best / latency_s[rows]
    return scores


def rmse(prediction: FloatArray, score: FloatArray) -> float:
    """Root mean square error."""
    return float(np.sqrt(np.mean(np.square(np.asarray(prediction, np.float64) - score))))


def r2(prediction: FloatArray, score: FloatArray) -> float:
    """Coefficient of determination; NaN when all scores are equal."""
    spread = float(np.sum(np.square(score - np.mean(score))))
    if spread == 0:
        return float("nan")
    return 1 - float(np.sum(np.square(np.asarray(prediction, np.float64) - score))) / spread


def spearman(prediction: FloatArray, score: FloatArray) -> float:
    """Spearman's rho of one group with average ranks for ties.

    0 for a constant prediction, which ranks nothing; NaN where the scores are all equal.
    """
    x, y = rankdata(prediction), rankdata(score)
    x, y = x - x.mean(), y - y.mean()
    if not y.any():
        return float("nan")
    if not x.any():
        return 0.0
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def pairwise_accuracy(prediction: FloatArray, score: FloatArray) -> float:
    """Share of ordered pairs of one group; NaN where the scores are all equal."""
    score_order = np.sign(score[:, None] - score[None, :])
    prediction_order = np.sign(prediction[:, None] - prediction[None, :])
    differs = score_order != 0
    if not differs.any():
        return float("nan")
    return float(np.mean((1 + score_order * prediction_order)[differs] / 2))


def top_k_score(prediction: FloatArray, score: FloatArray, k: int) -> float:
    """Best score among the k highest predictions of one group; 0 when all of them failed."""
    if k < 1:
        raise ValueError(f"k={k} must be at least 1")
    highest = np.lexsort((score, -np.asarray(prediction)))[:k]
    return float(score[highest].max())


@dataclass(frozen=True)
class TaskMetrics:
    """Metrics of one group."""

    group: int
    records: int
    spearman: float
    pairwise_accuracy: float
    top_1: float
    top_5: float


@dataclass(frozen=True)
class Metrics:
    """Metrics over many groups; `per_task` is ordered by group."""

    records: int
    tasks: int
    rmse: float
    r2: float
    spearman: float
    pairwise_accuracy: float
    top_1: float
    top_5: float
    per_task: tuple[TaskMetrics, ...] = ()

    def __str__(self) -> str:
        """The figures that tell how well tasks are ranked, on one short line."""
        return (
            f"spearman {self.spearman:.3f}  pairs {self.pairwise_accuracy:.3f}  "
            f"top-1 {self.top_1:.3f}  top-5 {self.top_5:.3f}"
        )

    def summary(self) -> dict[str, float]:
        """The overall figures by name, ready for a logger or JSON."""
        return {name: value for name, value in vars(self).items() if name != "per_task"}


def evaluate(
    prediction: FloatArray,
    latency_s: NDArray[np.float64],
    group: NDArray[np.int64],
    weights: Mapping[int, float] | None = None,
) -> Metrics:
    """Computes every metric of this module.

    Args:
      prediction: predicted scores [n].
      latency_s: measured latencies in seconds [n], +inf for a failure.
      group: which rows are rivals [n].
      weights: weight of each group in the top-k scores, such as its count in a network; 1 by default.

    Raises:
      ValueError: the arrays differ in length, a prediction is NaN, or no group has a program that ran.
    """
    if not len(prediction) == len(latency_s) == len(group):
        raise ValueError(
            f"{len(prediction)} predictions for {len(latency_s)} latencies and {len(group)} groups: "
            "give one of each a row"
        )
    if np.isnan(prediction).any():
        raise ValueError(
            f"{int(np.isnan(prediction).sum())} of {len(prediction)} predictions are NaN: the model "
            "diverged; train it again with a lower learning rate"
        )
    score = scores_from_latency(latency_s, group)
    per_task = tuple(
        _task_metrics(int(group[rows[0]]), prediction[rows], score[rows])
        for rows in group_rows(group)
        if not np.isnan(score[rows[0]])
    )
    if not per_task:
        raise ValueError("no task has a program that ran: nothing to evaluate")
    known = ~np.isnan(score)
    weight = [1.0 if weights is None else weights.get(task.group, 1.0) for task in per_task]
    return Metrics(
        records=int(known.sum()),
        tasks=len(per_task),
        rmse=rmse(prediction[known], score[known]),
        r2=r2(prediction[known], score[known]),
        spearman=_mean([task.spearman for task in per_task]),
        pairwise_accuracy=_mean([task.pairwise_accuracy for task in per_task]),
        top_1=_mean([task.top_1 for task in per_task], weight),
        top_5=_mean([task.top_5 for task in per_task], weight),
        per_task=per_task,
    )


def _task_metrics(group: int, prediction: FloatArray, score: FloatArray) -> TaskMetrics:
    top_1, top_5 = (top_k_score(prediction, score, k) for k in TOP_K)
    return TaskMetrics(
        group=group,
        records=len(score),
        spearman=spearman(prediction, score),
        pairwise_accuracy=pairwise_accuracy(prediction, score),
        top_1=top_1,
        top_5=top_5,
    )


def _mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """Weighted mean of the values that are not NaN; NaN when none is left."""
    array = np.array(values)
    known = ~np.isnan(array)
    if not known.any():
        return float("nan")
    return float(np.average(array[known], weights=None if weights is None else np.array(weights)[known]))
