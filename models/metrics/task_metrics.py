"""Metrics of predicted scores against the measured programs of each task.

Rows with equal `group` are programs of one task on one device. Within a group, let l_i be the latency in
seconds (+inf for a failure), s_i = min_j l_j / l_i the score, p_i the prediction (higher is better), and T_k
the rows of the k highest p:

- RMSE               sqrt(mean((p_i - s_i)^2)), over all rows
- R2                 1 - sum((p_i - s_i)^2) / sum((s_i - mean(s))^2), over all rows
- log R2             R2 of ln(max(p, f)) against ln(max(s, f)) with f = `LOG_FLOOR`, over all rows. -ln(s)
                     is the logarithm of the latency relative to the task's best
- Spearman           rank correlation of p and s, averaged over groups
- pairwise accuracy  share of the pairs with s_i != s_j that p orders correctly; a tie of p counts one half;
                     averaged over groups
- top-k score        min_j l_j / min over T_k of l_i, which is 1 if T_k contains the best program; the mean of
                     ratios over groups, optionally weighted
- top-k sums         sum over groups of w min_j l_j / sum over groups of w min over T_k of l_i; the ratio of
                     sums, as TenSet and TLP define top-k. Tasks with long latencies dominate it
- peak score@k       mean over j = 1..k of the top-j score: how soon the best program is found if programs
                     are measured in the order of p (TVM calls it average peak score)
- recall@k           share of the k fastest programs that are in T_k
- regret@k           min over T_k of l_i / min_j l_j - 1: relative loss of measuring only k programs

Ties of p are broken against the model, so that a constant predictor gains nothing from the order of rows. A
group without a successful program has no score and is left out. Spearman and pairwise accuracy also leave
out groups with fewer than two different scores. If all of T_k failed, its top-k score is 0, and sums and
regret use the slowest successful program instead of an infinite latency.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from ...wording import decimal

FloatArray = NDArray[np.floating[Any]]
TOP_K = (1, 5, 10)
PEAK_K = RECALL_K = (5, 10)
REGRET_K = (1, 5)

LOG_FLOOR = 1 / 20
"""Least score on the logarithmic scale; One-Shot Tuner section 5 leaves out programs that are 20x slower. It
also bounds predictions, which may be 0 or less."""


def group_rows(group: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Row indices of each group, by ascending group and row."""
    order = np.argsort(group, kind="stable")
    boundaries = np.flatnonzero(np.diff(group[order])) + 1
    yield from (rows for rows in np.split(order, boundaries) if len(rows))


def scores_from_latency(latency_s: NDArray[np.float64], group: NDArray[np.int64]) -> NDArray[np.float64]:
    """Scores [n] in (0, 1]; 0 for a failure, NaN for the rows of a group with failures alone."""
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
    """Coefficient of determination; NaN if all scores are equal."""
    spread = float(np.sum(np.square(score - np.mean(score))))
    if spread == 0:
        return float("nan")
    return 1 - float(np.sum(np.square(np.asarray(prediction, np.float64) - score))) / spread


def spearman(prediction: FloatArray, score: FloatArray) -> float:
    """Spearman's rho of one group with average ranks for ties.

    0 for a constant prediction, which ranks nothing; NaN if all scores are equal.
    """
    x, y = rankdata(prediction), rankdata(score)
    x, y = x - x.mean(), y - y.mean()
    if not y.any():
        return float("nan")
    if not x.any():
        return 0.0
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def pairwise_accuracy(prediction: FloatArray, score: FloatArray) -> float:
    """Share of correctly ordered pairs of one group; NaN if all scores are equal."""
    score_order = np.sign(score[:, None] - score[None, :])
    prediction_order = np.sign(prediction[:, None] - prediction[None, :])
    differs = score_order != 0
    if not differs.any():
        return float("nan")
    return float(np.mean((1 + score_order * prediction_order)[differs] / 2))


def by_prediction(prediction: FloatArray, score: FloatArray) -> FloatArray:
    """Scores of one group by descending prediction; of equal predictions the slower program comes first."""
    return score[np.lexsort((score, -np.asarray(prediction)))]


def latency_r2(predicted_s: FloatArray, latency_s: FloatArray) -> float:
    """R2 of ln(latency) over all successful programs, for a model that predicts latencies in seconds.

    Latencies of all tasks are compared, so distinguishing large tasks from small ones already gives most of
    it; it says little about the order within a task. NaN if all latencies are equal.
    """
    ran = np.isfinite(latency_s)
    return r2(np.log(np.asarray(predicted_s, np.float64)[ran]), np.log(latency_s[ran]))


def task_mean_s(latency_s: FloatArray, group: NDArray[Any]) -> FloatArray:
    """Geometric mean latency of each program's task in seconds, over the programs that ran; NaN if none did.

    It is the best prediction that knows the task and nothing of the program, so its `latency_r2` is the share
    of the variance that tasks alone explain.
    """
    _, task = np.unique(group, return_inverse=True)
    ran = np.isfinite(latency_s)
    sums = np.bincount(task[ran], np.log(latency_s[ran]), minlength=task.max(initial=-1) + 1)
    counts = np.bincount(task[ran], minlength=len(sums))
    with np.errstate(invalid="ignore"):
        means: FloatArray = np.exp(sums / counts)[task]
    return means


def top_k_score(ordered: FloatArray, k: int) -> float:
    """Best score among the k highest predictions of one group, whose scores are ordered `by_prediction`.

    0 if all of them failed.
    """
    if k < 1:
        raise ValueError(f"k={k} must be at least 1")
    return float(ordered[:k].max())


def peak_score(ordered: FloatArray, k: int) -> float:
    """Mean of the top-1 to top-k scores of one group, or up to top-n for a group of n < k rows."""
    return float(np.maximum.accumulate(ordered[:k]).mean())


def recall(ordered: FloatArray, k: int) -> float:
    """Share of the k fastest programs of one group that are among its k highest predictions.

    A program as fast as the k-th counts as one of the fastest; a failed program never does. NaN for a group
    of at most k programs, which cannot miss one.
    """
    if len(ordered) <= k:
        return float("nan")
    fastest = (ordered >= np.partition(ordered, -k)[-k]) & (ordered > 0)
    return float(fastest[:k].sum() / min(k, fastest.sum()))


def regret(ordered: FloatArray, k: int) -> float:
    """Relative slowdown of the fastest of the k highest predictions against the group's best; 0.1 is 10 %."""
    return _or_slowest(top_k_score(ordered, k), ordered) - 1


def _or_slowest(top: float, scores: FloatArray) -> float:
    """Relative latency for a top-k score; if all k failed, the relative latency of the slowest success."""
    return 1 / (top if top > 0 else float(scores[scores > 0].min()))


@dataclass(frozen=True)
class TaskMetrics:
    """Metrics of one group."""

    group: int
    records: int
    spearman: float
    pairwise_accuracy: float
    top_1: float
    top_5: float
    top_10: float
    peak_5: float
    peak_10: float
    recall_5: float
    recall_10: float
    regret_1: float
    regret_5: float
    best_s: float  # latency of the fastest program
    slowest_s: float  # latency of the slowest program that ran

    def top_s(self, k: int) -> float:
        """Latency in seconds of the fastest of the k highest predictions, for k in `TOP_K`."""
        top: float = getattr(self, f"top_{k}")
        return self.best_s / top if top > 0 else self.slowest_s


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
    log_r2: float
    top_10: float
    top_1_sums: float
    top_5_sums: float
    top_10_sums: float
    peak_5: float
    peak_10: float
    recall_5: float
    recall_10: float
    regret_1: float
    regret_5: float
    per_task: tuple[TaskMetrics, ...] = ()

    def __str__(self) -> str:
        """Ranking metrics on one short line."""
        return (
            f"spearman {decimal(self.spearman)}  pairs {decimal(self.pairwise_accuracy)}  "
            f"top-1 {decimal(self.top_1)}  top-5 {decimal(self.top_5)}"
        )

    def summary(self) -> dict[str, float]:
        """Overall metrics by name, for a logger or JSON."""
        return {name: value for name, value in vars(self).items() if name != "per_task"}


def evaluate(
    prediction: FloatArray,
    latency_s: NDArray[np.float64],
    group: NDArray[np.int64],
    weights: Mapping[int, float] | None = None,
) -> Metrics:
    """Every metric of this module.

    Args:
      prediction: predicted scores [n].
      latency_s: measured latencies in seconds [n], +inf for a failure.
      group: group of each row [n]; rows of one group are compared.
      weights: weight of each group in the top-k scores, such as its calls in a network; 1 if absent.

    Raises:
      ValueError: the arrays differ in length, a prediction is NaN, or no program ran.
    """
    if not len(prediction) == len(latency_s) == len(group):
        raise ValueError(
            f"{len(prediction)} predictions for {len(latency_s)} latencies and {len(group)} groups: "
            "give one of each for every row"
        )
    if np.isnan(prediction).any():
        raise ValueError(
            f"{int(np.isnan(prediction).sum())} of {len(prediction)} predictions are NaN: the model "
            "diverged; train it again with a lower learning rate"
        )
    score = scores_from_latency(latency_s, group)
    per_task = tuple(
        _task_metrics(int(group[rows[0]]), prediction[rows], score[rows], float(latency_s[rows].min()))
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
        log_r2=r2(_log(prediction[known]), _log(score[known])),
        per_task=per_task,
        **{name: _mean([getattr(task, name) for task in per_task]) for name in _PLAIN_MEANS},
        **{f"top_{k}": _mean([getattr(task, f"top_{k}") for task in per_task], weight) for k in TOP_K},
        **{f"top_{k}_sums": top_k_sums(per_task, k, weight) for k in TOP_K},
    )


_PLAIN_MEANS = (
    "spearman",
    "pairwise_accuracy",
    *(f"peak_{k}" for k in PEAK_K),
    *(f"recall_{k}" for k in RECALL_K),
    *(f"regret_{k}" for k in REGRET_K),
)
"""Metrics that are averaged over tasks without weights."""


def top_k_sums(tasks: Sequence[TaskMetrics], k: int, weights: Sequence[float]) -> float:
    """Ratio of two weighted sums over tasks: best latencies, and best latencies among the top k."""
    best = sum(weight * task.best_s for task, weight in zip(tasks, weights, strict=True))
    chosen = sum(weight * task.top_s(k) for task, weight in zip(tasks, weights, strict=True))
    return best / chosen if chosen else float("nan")


def _task_metrics(group: int, prediction: FloatArray, score: FloatArray, best_s: float) -> TaskMetrics:
    ordered = by_prediction(prediction, score)
    return TaskMetrics(
        group=group,
        records=len(score),
        spearman=spearman(prediction, score),
        pairwise_accuracy=pairwise_accuracy(prediction, score),
        best_s=best_s,
        slowest_s=best_s / float(score[score > 0].min()),
        **{f"top_{k}": top_k_score(ordered, k) for k in TOP_K},
        **{f"peak_{k}": peak_score(ordered, k) for k in PEAK_K},
        **{f"recall_{k}": recall(ordered, k) for k in RECALL_K},
        **{f"regret_{k}": regret(ordered, k) for k in REGRET_K},
    )


def _log(score: FloatArray) -> FloatArray:
    return np.log(np.maximum(np.asarray(score, np.float64), LOG_FLOOR))


def _mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """Weighted mean of the values that are not NaN; NaN without such a value."""
    array = np.array(values)
    known = ~np.isnan(array)
    if not known.any():
        return float("nan")
    return float(np.average(array[known], weights=None if weights is None else np.array(weights)[known]))
