"""What the measurements of a task say about its other candidates: a Gaussian process over the frozen model.

The pretrained model is the mean of the prior and stays as it is. What it gets wrong on one task, the residual
of the log-latencies, depends on the decisions: programs with alike tiles are misjudged alike. The posterior
tells how much a candidate that was not measured may still gain, which decides how many to validate. None of
the papers has this: One-Shot Tuner validates 64 whatever they show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist, pdist
from scipy.special import ndtr

NOISE = 0.03
"""Standard deviation of a measured log-latency: `measure.spread` by default."""

SPREAD_BEFORE = 0.35
"""Standard deviation of the residual that is assumed before anything was measured; it counts for
`SPREAD_WEIGHT` measurements."""

SPREAD_WEIGHT = 4.0

OWN_SHARE = 0.1
"""Share of the residual's variance that says nothing of other candidates, however alike."""

_ITSELF = 0.01
"""Candidates that are nearer than this share of the usual distance count as one."""

SCORE_FLOOR = 1e-3
"""Scores are compared on a log scale; those below are as good as this."""

TRUST = 0.25
"""Share of the differences between predicted scores that is believed: a search proposes what the frozen model
overrates. See benchmarks/adaptive_validation.py."""

DRAWS = 512
"""Samples of the joint posterior behind the expected improvement of a batch."""

SHORTLIST = 96
"""Candidates whose joint posterior is looked at, at least: those that may gain most each by itself."""


FIRST_SHORTLIST = 512
"""Candidates that `first_batch` looks at: those predicted best. Twice as many take eight times as long."""


class Placed(Protocol):
    """A candidate that a model has rated: a draft, or a proposal that was replayed."""

    @property
    def score(self) -> float:
        """What the frozen model predicts."""

    @property
    def place(self) -> NDArray[np.float32]:
        """[d], near those of candidates that are alike."""


@dataclass(frozen=True)
class Posterior:
    """Log-speeds (minus the log of the latency in seconds) of candidates that were not measured."""

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
        """Rows of up to `count` candidates to measure together, and what their best is expected to save.

        The saving is a share of `best_latency_s`. One candidate after the other is taken that adds most to
        it for its `cost` [n], over samples of the joint posterior: a second one that is like the first adds
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


def first_batch(
    candidates: Sequence[Placed], count: int, cost: NDArray[np.floating] | float = 1.0
) -> NDArray[np.int64]:
    """Rows of up to `count` candidates to begin with, by what is known before anything was measured.

    As many as may be the best together for their `cost` [n]: candidates that are alike share what the frozen
    model gets wrong, and its favourites often are.
    """
    every = _trusted(_scores(candidates))
    likely = np.sort(np.argsort(-every, kind="stable")[: max(FIRST_SHORTLIST, count)])
    places, mean = _places(candidates)[likely].astype(np.float64), every[likely]
    covariance = _Kernel(SPREAD_BEFORE, _usual_distance(places))(places, places)
    slow = float(mean.max()) - 2 * SPREAD_BEFORE  # each is likely to be faster than that
    cost = np.broadcast_to(np.asarray(cost, np.float64), len(every))[likely]
    return likely[Posterior(mean, covariance).best_batch(count, float(np.exp(-slow)), cost)[0]]


@dataclass(frozen=True)
class ResidualModel:
    """Measured candidates of one task that ran; see `fit`."""

    places: NDArray[np.float64]  # [m, d]
    scores: NDArray[np.float64]  # [m]
    log_speeds: NDArray[np.float64]  # [m]

    @classmethod
    def fit(
        cls,
        places: NDArray[np.floating],
        scores: NDArray[np.floating],
        latencies_s: NDArray[np.floating],
    ) -> ResidualModel:
        """Learns from `latencies_s` [m]; candidates that failed (inf) are left out.

        Args:
            places: [m, d], near each other where candidates are alike, such as those of `Likeness`.
            scores: [m], what the frozen model predicts for them.

        Raises ValueError where none ran.
        """
        ran = np.isfinite(latencies_s)
        if not ran.any():
            raise ValueError("no candidate ran: there is nothing to learn from")
        return cls(
            np.asarray(places, np.float64)[ran],
            np.asarray(scores, np.float64)[ran],
            -np.log(np.asarray(latencies_s, np.float64)[ran]),
        )

    @classmethod
    def of(cls, measured: Sequence[Placed], latencies_s: Sequence[float]) -> ResidualModel:
        """Learns from candidates; see `fit`."""
        return cls.fit(_places(measured), _scores(measured), np.array(latencies_s))

    def best_of(
        self, left: Sequence[Placed], count: int, cost: NDArray[np.floating] | float = 1.0
    ) -> tuple[NDArray[np.int64], float]:
        """`best_batch` of candidates."""
        return self.best_batch(_places(left), _scores(left), count, cost)

    def best_batch(
        self,
        places: NDArray[np.floating],
        scores: NDArray[np.floating],
        count: int,
        cost: NDArray[np.floating] | float = 1.0,
    ) -> tuple[NDArray[np.int64], float]:
        """Rows of up to `count` candidates to measure together, and what their best is expected to save.

        The saving is a share of the best latency. Places [n, d], scores [n] and what measuring costs [n] are
        of what was not measured; what saves most for its cost is taken.
        """
        cost = np.broadcast_to(np.asarray(cost, np.float64), len(scores))
        best = float(self.log_speeds.max())
        mean, deviation = self._process.alone(np.asarray(places, np.float64))
        surplus = self._offset + _trusted(scores) + mean - best
        ratio = surplus / np.maximum(deviation, 1e-12)
        density = np.exp(-0.5 * np.square(ratio)) / np.sqrt(2 * np.pi)
        alone = surplus * ndtr(ratio) + deviation * density  # the expected improvement of each
        likely = np.argsort(-alone / cost, kind="stable")[: max(SHORTLIST, 2 * count)]
        posterior = self.posterior(np.asarray(places)[likely], np.asarray(scores)[likely])
        rows, gain = posterior.best_batch(count, float(np.exp(-best)), cost[likely])
        return likely[rows], gain

    def posterior(self, places: NDArray[np.floating], scores: NDArray[np.floating]) -> Posterior:
        """What is expected of candidates with these places [n, d] and scores [n]."""
        mean, covariance = self._process.together(np.asarray(places, np.float64))
        return Posterior(self._offset + _trusted(scores) + mean, covariance)

    def corrected(self, places: NDArray[np.floating], scores: NDArray[np.floating]) -> NDArray[np.float64]:
        """Scores [n] with the expected residual in them: 1 is the best that the measurements imply."""
        corrected: NDArray[np.float64] = np.exp(
            _trusted(scores) + self._process.mean(np.asarray(places, np.float64))
        )
        return corrected

    @cached_property
    def _process(self) -> _Process:
        kernel = _Kernel(self._spread, _usual_distance(self.places))
        return _Process(kernel, self.places, self._residual - self._offset)

    @cached_property
    def _residual(self) -> NDArray[np.float64]:
        """What the frozen model leaves unexplained [m], with the task's unknown best speed still in it."""
        return self.log_speeds - _trusted(self.scores)

    @cached_property
    def _offset(self) -> float:
        """The best log-speed of the task, which scores are relative to and do not tell."""
        return float(self._residual.mean())

    @cached_property
    def _spread(self) -> float:
        """Standard deviation of the residual, shrunk towards what is assumed before."""
        squares = float(np.square(self._residual - self._offset).sum())
        variance = (SPREAD_WEIGHT * SPREAD_BEFORE**2 + squares) / (SPREAD_WEIGHT + len(self._residual))
        return float(np.sqrt(variance))


@dataclass(frozen=True)
class _Kernel:
    """The covariance of residuals, by fixed hyper-parameters: a handful of measurements cannot choose them.

    Matern's of 3/2 for what candidates that are alike share, and of 1/2 for what none shares with another:
    without it, a kernel that is smooth enough to learn from others claims far more than it knows. See
    benchmarks/adaptive_validation.py.
    """

    spread: float
    length: float

    def __call__(self, left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
        """[n, m] for places [n, d] and [m, d]."""
        distance = cdist(left, right) / self.length
        scaled = math.sqrt(3) * distance
        alike, itself = (1 + scaled) * np.exp(-scaled), np.exp(-distance / _ITSELF)
        return self.spread**2 * ((1 - OWN_SHARE) * alike + OWN_SHARE * itself)


class _Process:
    """The posterior of a Gaussian process with mean zero (Rasmussen and Williams, algorithm 2.1).

    As scikit-learn's, which takes over a second to import: a tenth of the search of a task.
    """

    def __init__(self, kernel: _Kernel, places: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        """Of values [m] at places [m, d], which carry `NOISE`."""
        self._kernel = kernel
        self._places = places
        self._factor = cho_factor(kernel(places, places) + NOISE**2 * np.eye(len(places)), lower=True)
        self._weights = cho_solve(self._factor, values)

    def mean(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """[n] at places [n, d]."""
        means: NDArray[np.float64] = self._kernel(places, self._places) @ self._weights
        return means

    def alone(self, places: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Means and standard deviations, each [n]."""
        across = self._kernel(places, self._places)
        told = np.einsum("nm,mn->n", across, cho_solve(self._factor, across.T))
        variance = np.maximum(self._kernel.spread**2 - told, 0.0)
        return across @ self._weights, np.sqrt(variance)

    def together(self, places: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Means [n] and their covariance [n, n]."""
        across = self._kernel(places, self._places)
        told = across @ cho_solve(self._factor, across.T)
        return across @ self._weights, self._kernel(places, places) - told


def _usual_distance(places: NDArray[np.float64]) -> float:
    """Distance over which residuals stay alike: the median between candidates."""
    between = pdist(places)
    between = between[between > 0]
    return float(np.median(between)) if len(between) else 1.0


def _places(candidates: Sequence[Placed]) -> NDArray[np.float32]:
    return np.stack([candidate.place for candidate in candidates])


def _scores(candidates: Sequence[Placed]) -> NDArray[np.float64]:
    return np.array([candidate.score for candidate in candidates])


def _trusted(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """The log-speeds that scores stand for, but for the task's offset."""
    logs: NDArray[np.float64] = np.log(np.maximum(np.asarray(scores, np.float64), SCORE_FLOOR))
    return TRUST * logs
