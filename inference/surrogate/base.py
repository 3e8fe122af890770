"""Interface of surrogates, which learn from a search's measurements on top of the frozen cost model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Embedded(Protocol):
    """Candidate that a model has rated: a draft, or a replayed program."""

    @property
    def trace(self) -> str:
        """Canonical trace (JSON), which identifies the candidate."""

    @property
    def score(self) -> float:
        """Predicted score of the frozen model."""

    @property
    def embedding(self) -> NDArray[np.float32]:
        """Embedding [d]; similar candidates have close embeddings."""


class Surrogate(ABC):
    """Posterior over the latencies of one task's candidates, given its measurements.

    The pretrained model stays frozen. A surrogate learns its errors. None of the papers has such a surrogate:
    Fasor's high-quality mode continues to explore with the same cost model (section 6).
    """

    @abstractmethod
    def learn(self, candidates: Sequence[Embedded], latencies_s: Sequence[float]) -> None:
        """Learns latencies in seconds, inf for a failure. A new measurement replaces an older one."""

    @property
    @abstractmethod
    def is_fitted(self) -> bool:
        """Whether a candidate of the task ran, which gives `best_batch` a latency to improve on."""

    @property
    @abstractmethod
    def is_informed(self) -> bool:
        """Whether measurements of this task, or of a task that shares the surrogate, change scores."""

    @property
    @abstractmethod
    def is_primed(self) -> bool:
        """Whether programs of other tasks inform the surrogate; it can then choose the first candidates."""

    @abstractmethod
    def first_batch(
        self, left: Sequence[Embedded], count: int, cost: NDArray[np.floating] | float = 1.0
    ) -> NDArray[np.int64]:
        """Rows of up to `count` first candidates to measure, before any has run; `cost` [n] is in seconds."""

    @abstractmethod
    def best_batch(
        self, left: Sequence[Embedded], count: int, cost: NDArray[np.floating] | float = 1.0
    ) -> tuple[NDArray[np.int64], float]:
        """Rows of the batch with the highest joint expected improvement per cost, and the improvement.

        The improvement is a share of the best latency; 1 if no candidate with an embedding ran. Requires
        `is_fitted`.
        """

    @abstractmethod
    def corrected(
        self, embeddings: NDArray[np.floating], scores: NDArray[np.floating]
    ) -> NDArray[np.floating]:
        """Scores [n] without the expected error of the frozen model; unchanged if no candidate ran."""
