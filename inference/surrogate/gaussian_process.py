"""Gaussian process with fixed hyper-parameters over candidate embeddings."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist, pdist

NOISE = 0.03
"""Standard deviation of a measured log-latency: `measure.spread` by default."""

OWN_SHARE = 0.1
"""Share of the variance that is specific to a candidate, even if other candidates are similar."""

ACROSS = 0.9
"""Covariance of programs of two tasks, relative to equally distant programs of one task."""

LEVEL = 3.0
"""Standard deviation of a task's mean log-speed around the mean of its measured programs: nearly unknown."""

_OWN_SCALE = 0.01
"""Length scale of the candidate-specific part, as a share of the usual distance."""


@dataclass(frozen=True)
class TaskKernel:
    """Matérn-3/2 kernel for shared variance plus short-scale Matérn-1/2 for candidate-specific variance.

    The hyper-parameters are fixed, because a handful of measurements cannot determine them. A kernel without
    the second part is far too certain if it is smooth enough to learn from neighbours.
    """

    spread: float
    """Standard deviation."""
    length: float
    """Length scale of the shared part."""

    @property
    def variance(self) -> float:
        """Variance of a candidate."""
        return self.spread**2

    def __call__(self, left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
        """Covariance [n, m] of embeddings [n, d] and [m, d]."""
        shared, own = self._parts(left, right)
        return shared + own

    def _parts(
        self, left: NDArray[np.float64], right: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Shared and candidate-specific covariance, each [n, m]."""
        distance = cdist(left, right) / self.length
        scaled = math.sqrt(3) * distance
        shared, own = (1 + scaled) * np.exp(-scaled), np.exp(-distance / _OWN_SCALE)
        return self.spread**2 * (1 - OWN_SHARE) * shared, self.spread**2 * OWN_SHARE * own


@dataclass(frozen=True)
class FamilyKernel(TaskKernel):
    """Kernel over task and program. The last column of an embedding is the number of its task.

    The covariance of programs of two tasks is `ACROSS` times the covariance of programs of one task. Each
    task has its own level, which is unknown beforehand. Draft vectors encode extents; tasks of different
    sizes are therefore further apart.
    """

    @property
    def variance(self) -> float:
        """Variance of a candidate, including the variance of its task's level."""
        return self.spread**2 + LEVEL**2

    def __call__(self, left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
        """Covariance [n, m] of embeddings [n, d + 1] and [m, d + 1]."""
        shared, own = self._parts(left[:, :-1], right[:, :-1])
        same = left[:, -1:] == right[None, :, -1]
        return np.where(same, shared + own + LEVEL**2, ACROSS * shared)


class GaussianProcess:
    """Posterior of a zero-mean Gaussian process (Rasmussen and Williams, algorithm 2.1).

    The posterior equals scikit-learn's. The import of scikit-learn lasts over a second, a tenth of the search
    of a task.
    """

    def __init__(
        self, kernel: TaskKernel, embeddings: NDArray[np.float64], values: NDArray[np.float64]
    ) -> None:
        """Fits `values` [m] at `embeddings` [m, d]; the values carry noise of standard deviation `NOISE`."""
        self._kernel = kernel
        self._embeddings = embeddings
        covariance = kernel(embeddings, embeddings) + NOISE**2 * np.eye(len(embeddings))
        self._factor = cho_factor(covariance, lower=True)
        self._weights = cho_solve(self._factor, values)

    def mean(self, embeddings: NDArray[np.float64]) -> NDArray[np.float64]:
        """Means [n] at embeddings [n, d]."""
        means: NDArray[np.float64] = self._kernel(embeddings, self._embeddings) @ self._weights
        return means

    def marginals(self, embeddings: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Means and standard deviations, each [n]."""
        across = self._kernel(embeddings, self._embeddings)
        explained = np.einsum("nm,mn->n", across, cho_solve(self._factor, across.T))
        variance = np.maximum(self._kernel.variance - explained, 0.0)
        return across @ self._weights, np.sqrt(variance)

    def joint(self, embeddings: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Means [n] and their covariance [n, n]."""
        across = self._kernel(embeddings, self._embeddings)
        explained = across @ cho_solve(self._factor, across.T)
        return across @ self._weights, self._kernel(embeddings, embeddings) - explained


def usual_distance(embeddings: NDArray[np.float64]) -> float:
    """Median distance between distinct embeddings [n, d], used as length scale; 1 if all are equal."""
    between = pdist(embeddings)
    between = between[between > 0]
    return float(np.median(between)) if len(between) else 1.0
