"""Acquisition: expected improvement of single candidates and of batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

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
