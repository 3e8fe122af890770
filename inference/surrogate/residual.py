"""Gaussian-process surrogate over the residuals of the frozen cost model.

The pretrained model is the prior mean and stays frozen. Its error on a task, the residual of the log-speed,
depends on the decisions: the model misjudges programs with similar tiles in the same way. The posterior
estimates the gain that an unmeasured candidate still offers. This estimate determines the number of measured
candidates. None of the papers has this: One-Shot Tuner always measures 64 candidates (section 4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from .base import Embedded
from .gaussian_process import LEVEL, FamilyKernel, GaussianProcess, TaskKernel, usual_distance

SPREAD_BEFORE = 0.35
"""Prior standard deviation of the residual, with the weight of `SPREAD_WEIGHT` measurements."""

SPREAD_WEIGHT = 4.0

SCORE_FLOOR = 1e-3
"""Lower bound of scores, because scores are compared on a log scale."""

TRUST = 0.25
"""Trusted share of the differences between predicted log-scores. A search over many candidates converges on
candidates that the frozen model overrates."""

TRUST_WEIGHT = 2.0
"""Weight of the prior `TRUST` when a family learns its trust, as a sum of squared log-scores within its
tasks."""

SHORTLIST = 96
"""Minimum number of candidates in the joint posterior, chosen by their individual expected improvement."""

FIRST_SHORTLIST = 512
"""Number of candidates that `first_batch` considers, best predicted first. Twice as many take eight times as
long."""


def first_batch(
    candidates: Sequence[Embedded],
    count: int,
    cost: NDArray[np.floating] | float = 1.0,
    siblings: ResidualModel | None = None,
) -> NDArray[np.int64]:
    """Rows of up to `count` candidates to measure first, before any candidate of the task ran.

    The batch is the one most likely to contain the best candidate per `cost` [n]. Similar candidates share
    the frozen model's error, and the model's favourites are often similar. `siblings` are measurements of
    other tasks that share the model's errors.
    """
    scores = _scores(candidates)
    if siblings is None:
        every = trusted(scores)
    else:
        every = siblings.trusted(scores) + siblings.errors(_embeddings(candidates))
    likely = np.sort(np.argsort(-every, kind="stable")[: max(FIRST_SHORTLIST, count)])
    embeddings, mean = _embeddings(candidates)[likely].astype(np.float64), every[likely]
    if siblings is None:
        covariance = TaskKernel(SPREAD_BEFORE, usual_distance(embeddings))(embeddings, embeddings)
    else:
        covariance = siblings.posterior(embeddings, scores[likely]).covariance
    slow = float(mean.max()) - 2 * SPREAD_BEFORE  # each candidate is likely to be faster than this
    cost = np.broadcast_to(np.asarray(cost, np.float64), len(every))[likely]
    return likely[Posterior(mean, covariance).best_batch(count, float(np.exp(-slow)), cost)[0]]


@dataclass(frozen=True)
class ResidualModel:
    """Residuals of a task's candidates that ran, and of other tasks of its family; see `fit`.

    Predictions are for task 0.
    """

    embeddings: NDArray[np.float64]  # [m, d]
    scores: NDArray[np.float64]  # [m]
    log_speeds: NDArray[np.float64]  # [m]
    tasks: NDArray[np.int64]  # [m], task number of each; all except 0 are siblings

    @classmethod
    def fit(
        cls,
        embeddings: NDArray[np.floating],
        scores: NDArray[np.floating],
        latencies_s: NDArray[np.floating],
        tasks: NDArray[np.integer] | None = None,
    ) -> ResidualModel:
        """Learns from `latencies_s` [m]. Failed candidates (inf) are left out.

        Args:
            embeddings: [m, d], close for similar candidates, such as the embeddings of `CandidateEmbedder`.
            scores: [m], predictions of the frozen model.
            tasks: [m], number of each candidate's task; None means task 0 only. Each task has its own level.
                All tasks share the process over residuals; see FamilyKernel.

        Raises ValueError if no candidate ran.
        """
        ran = np.isfinite(latencies_s)
        if not ran.any():
            raise ValueError("no candidate ran: there is nothing to learn from")
        numbers = np.zeros(len(ran), np.int64) if tasks is None else np.asarray(tasks, np.int64)
        return cls(
            np.asarray(embeddings, np.float64)[ran],
            np.asarray(scores, np.float64)[ran],
            -np.log(np.asarray(latencies_s, np.float64)[ran]),
            numbers[ran],
        )

    @classmethod
    def of(
        cls,
        measured: Sequence[Embedded],
        latencies_s: Sequence[float],
        tasks: Sequence[int] | None = None,
    ) -> ResidualModel:
        """Learns from candidates; see `fit`."""
        numbers = None if tasks is None else np.array(tasks)
        return cls.fit(_embeddings(measured), _scores(measured), np.array(latencies_s), numbers)

    def best_of(
        self, left: Sequence[Embedded], count: int, cost: NDArray[np.floating] | float = 1.0
    ) -> tuple[NDArray[np.int64], float]:
        """Applies `best_batch` to candidates."""
        return self.best_batch(_embeddings(left), _scores(left), count, cost)

    def best_batch(
        self,
        embeddings: NDArray[np.floating],
        scores: NDArray[np.floating],
        count: int,
        cost: NDArray[np.floating] | float = 1.0,
    ) -> tuple[NDArray[np.int64], float]:
        """Rows of up to `count` candidates to measure together, and their joint expected improvement.

        The improvement is a share of the best latency of the task. At least one candidate of the task must
        have run. The unmeasured candidates have embeddings [n, d], scores [n] and measuring costs [n]. The
        batch maximises the improvement per cost.
        """
        cost = np.broadcast_to(np.asarray(cost, np.float64), len(scores))
        best = float(self.log_speeds[self.tasks == 0].max())
        mean, deviation = self._process.marginals(self._points(embeddings))
        alone = expected_improvement(self._offset(0) + self.trusted(scores) + mean - best, deviation)
        likely = np.argsort(-alone / cost, kind="stable")[: max(SHORTLIST, 2 * count)]
        posterior = self.posterior(np.asarray(embeddings)[likely], np.asarray(scores)[likely])
        rows, gain = posterior.best_batch(count, float(np.exp(-best)), cost[likely])
        return likely[rows], gain

    def posterior(self, embeddings: NDArray[np.floating], scores: NDArray[np.floating]) -> Posterior:
        """Joint posterior of candidates with these embeddings [n, d] and scores [n].

        If no candidate of the task ran, the means are relative to the unknown level of the task.
        """
        mean, covariance = self._process.joint(self._points(embeddings))
        if not (self.tasks == 0).any():
            covariance = covariance - LEVEL**2
        return Posterior(self._offset(0) + self.trusted(scores) + mean, covariance)

    def corrected(
        self, embeddings: NDArray[np.floating], scores: NDArray[np.floating]
    ) -> NDArray[np.float64]:
        """Scores [n] including the expected residual. 1 is the best score that the measurements imply."""
        corrected: NDArray[np.float64] = np.exp(self.trusted(scores) + self.errors(embeddings))
        return corrected

    def trusted(self, scores: NDArray[np.floating]) -> NDArray[np.float64]:
        """Log-speeds [n] that scores imply, relative to the level of the task."""
        return trusted(scores, self._trust)

    @cached_property
    def _trust(self) -> float:
        """Slope of log-speeds over log-scores within tasks. Only a family has enough programs to learn it."""
        if not self._has_siblings:
            return TRUST
        logs, speeds = trusted(self.scores, 1.0), self.log_speeds.copy()
        for task in np.unique(self.tasks):
            rows = self.tasks == task
            logs[rows] -= logs[rows].mean()
            speeds[rows] -= speeds[rows].mean()
        slope = (TRUST_WEIGHT * TRUST + logs @ speeds) / (TRUST_WEIGHT + logs @ logs)
        return float(np.clip(slope, 0.0, 1.0))

    def errors(self, embeddings: NDArray[np.floating]) -> NDArray[np.float64]:
        """Expected residual [n] of the frozen model's log-scores at embeddings [n, d]."""
        return self._process.mean(self._points(embeddings))

    @cached_property
    def _process(self) -> GaussianProcess:
        """Process over residuals: of one task without their mean, or of a family with uncertain levels."""
        if not self._has_siblings:
            kernel = TaskKernel(self._spread, usual_distance(self.embeddings))
            return GaussianProcess(kernel, self.embeddings, self._centred)
        points = np.column_stack([self.embeddings, self.tasks])
        return GaussianProcess(FamilyKernel(self._spread, self._usual_distance), points, self._centred)

    @property
    def _has_siblings(self) -> bool:
        return bool(self.tasks.any())

    @property
    def _usual_distance(self) -> float:
        """Usual distance between candidates of one task, the median over tasks."""
        each = [self.embeddings[self.tasks == task] for task in np.unique(self.tasks)]
        within = [usual_distance(embeddings) for embeddings in each if len(embeddings) > 1]
        return float(np.median(within)) if within else usual_distance(self.embeddings)

    def _points(self, embeddings: NDArray[np.floating]) -> NDArray[np.float64]:
        """Embeddings of task 0 in the form that the process expects."""
        found = np.asarray(embeddings, np.float64)
        return np.column_stack([found, np.zeros(len(found))]) if self._has_siblings else found

    @cached_property
    def _residual(self) -> NDArray[np.float64]:
        """Log-speeds [m] minus the part that scores explain; they include the unknown level of each task."""
        return self.log_speeds - self.trusted(self.scores)

    @cached_property
    def _centred(self) -> NDArray[np.float64]:
        """Residuals [m] minus the offset of their task."""
        offsets = {task: self._offset(task) for task in np.unique(self.tasks).tolist()}
        return self._residual - np.array([offsets[task] for task in self.tasks.tolist()])

    def _offset(self, task: int) -> float:
        """Level of a task: the log-speed of its best program, which scores do not show; 0 if nothing ran."""
        of_task = self._residual[self.tasks == task]
        return float(of_task.mean()) if len(of_task) else 0.0

    @cached_property
    def _spread(self) -> float:
        """Standard deviation of the residual, shrunk towards `SPREAD_BEFORE`."""
        squares = float(np.square(self._centred).sum())
        variance = (SPREAD_WEIGHT * SPREAD_BEFORE**2 + squares) / (SPREAD_WEIGHT + len(self._residual))
        return float(np.sqrt(variance))


def _embeddings(candidates: Sequence[Embedded]) -> NDArray[np.float32]:
    return np.stack([candidate.embedding for candidate in candidates])


def _scores(candidates: Sequence[Embedded]) -> NDArray[np.float64]:
    return np.array([candidate.score for candidate in candidates])


def trusted(scores: NDArray[np.floating], trust: float = TRUST) -> NDArray[np.float64]:
    """Log-speeds that scores imply, relative to the level of the task; see TRUST for `trust`."""
    logs: NDArray[np.float64] = np.log(np.maximum(np.asarray(scores, np.float64), SCORE_FLOOR))
    return trust * logs


DRAWS = 512
"""Number of samples of the joint posterior that estimate the expected improvement of a batch."""


@dataclass(frozen=True)
class Posterior:
    """Joint posterior of log-speeds (minus the log of the latency in seconds) of unmeasured candidates."""

    mean: NDArray[np.float64]  # [n]
    covariance: NDArray[np.float64]  # [n, n]

    @property
    def deviation(self) -> NDArray[np.float64]:
        """Standard deviations [n]."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def best_batch(
        self,
        count: int,
        best_latency_s: float,
        cost: NDArray[np.floating] | float = 1.0,
        seed: int = 0,
    ) -> tuple[NDArray[np.int64], float]:
        """Rows of up to `count` candidates with the highest joint expected improvement, and the improvement.

        The improvement is a share of `best_latency_s`. A greedy search over samples of the joint posterior
        selects the candidate that adds most per `cost` [n]. A candidate similar to a selected one adds
        little.
        """
        draws = np.random.default_rng(seed).multivariate_normal(
            self.mean, self.covariance, size=DRAWS, method="eigh"
        )
        known = -np.log(best_latency_s)
        reached = np.full(DRAWS, known)
        rows: list[int] = []
        for _ in range(min(count, len(self.mean))):
            gains = (np.maximum(draws, reached[:, None]).mean(axis=0) - reached.mean()) / cost
            gains[rows] = -np.inf
            rows.append(int(gains.argmax()))
            reached = np.maximum(reached, draws[:, rows[-1]])
        return np.array(rows, dtype=np.int64), float(reached.mean() - known)


def expected_improvement(surplus: NDArray[np.float64], deviation: NDArray[np.float64]) -> NDArray[np.float64]:
    """Expected improvement [n] of normal variables whose means exceed the best value by `surplus` [n]."""
    ratio = surplus / np.maximum(deviation, 1e-12)
    density = np.exp(-0.5 * np.square(ratio)) / np.sqrt(2 * np.pi)
    return surplus * ndtr(ratio) + deviation * density
