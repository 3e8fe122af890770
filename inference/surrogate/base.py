"""Interface of surrogates: what a search learns from measurements on top of the frozen cost model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Embedded(Protocol):
    """A candidate that a model has rated: a draft, or a replayed program."""

    @property
    def trace(self) -> str:
        """Canonical trace (JSON), which identifies the candidate."""

    @property
    def score(self) -> float:
        """Predicted score of the frozen model."""

    @property
    def embedding(self) -> NDArray[np.float32]:
        """Embedding [d], close to those of similar candidates."""


class Surrogate(ABC):
    """Posterior over the latencies of one task's candidates, given its measurements.

    The pretrained model stays frozen, and a surrogate over its errors learns. None of the papers has one:
    Fasor's high-quality mode explores on with the same cost model (section 6).
    """

    @abstractmethod
    def learn(self, candidates: Sequence[Embedded], latencies_s: Sequence[float]) -> None:
        """Takes latencies in seconds, inf for a failure; a candidate measured before is replaced."""

    @property
    @abstractmethod
    def is_fitted(self) -> bool:
        """Whether a candidate of the task ran, so that `best_batch` has a best latency to improve on."""

    @property
    @abstractmethod
    def is_informed(self) -> bool:
        """Whether any measurement, of this task or of one that shares the surrogate, changes scores."""

    @property
    @abstractmethod
    def is_primed(self) -> bool:
        """Whether programs of other tasks inform it, so that it can choose the first of its own."""

    @abstractmethod
    def first_batch(
        self, left: Sequence[Embedded], count: int, cost: NDArray[np.floating] | float = 1.0
    ) -> NDArray[np.int64]:
        """Rows of up to `count` candidates to measure before any of the task ran; `cost` [n] in seconds."""

    @abstractmethod
    def best_batch(
        self, left: Sequence[Embedded], count: int, cost: NDArray[np.floating] | float = 1.0
    ) -> tuple[NDArray[np.int64], float]:
        """Rows of the batch with the highest joint expected improvement for its cost, and that improvement.

        The improvement is a share of the best latency. Needs `is_fitted`.
        """

    @abstractmethod
    def corrected(
        self, embeddings: NDArray[np.floating], scores: NDArray[np.floating]
    ) -> NDArray[np.floating]:
        """Scores [n] with the expected error of the frozen model removed; as they are if nothing ran."""
