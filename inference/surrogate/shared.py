"""Surrogates of tasks, each its own or one that several tasks share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .base import Embedded, Surrogate

if TYPE_CHECKING:
    from .residual import ResidualModel


class Surrogates:
    """Surrogates by name; tasks that give the same name share what is measured.

    Shared or not, each task has a latency level of its own; the errors of the frozen model over embeddings
    are what is shared (FamilySeer shares a cost model among the tasks of a family, section 5.1).
    """

    def __init__(self) -> None:
        self._groups: defaultdict[str, _Group] = defaultdict(_Group)

    def of(self, task: str, group: str = "") -> Surrogate:
        """The surrogate of a task, by its workload hash; `group` names a shared one, "" the task's own."""
        return self._groups[group or task].member(task)


def own_surrogate() -> Surrogate:
    """A surrogate that no other task shares."""
    return Surrogates().of("task")


class _Group:
    """Measurements of the tasks that share a surrogate, and the model fitted to them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._measured: dict[tuple[int, str], tuple[Embedded, float]] = {}
        self._model: ResidualModel | None = None

    def member(self, task: str) -> Surrogate:
        return _Member(self, self._numbers.setdefault(task, len(self._numbers)))

    def learn(self, task: int, candidates: Sequence[Embedded], latencies_s: Sequence[float]) -> None:
        for candidate, latency_s in zip(candidates, latencies_s, strict=True):
            self._measured[task, candidate.trace] = candidate, latency_s
        self._model = None

    def ran(self, task: int | None = None) -> bool:
        """Whether a candidate of the task ran; None asks for any task."""
        return any(
            np.isfinite(latency_s)
            for (number, _), (_, latency_s) in self._measured.items()
            if task in (None, number)
        )

    @property
    def model(self) -> ResidualModel:
        if self._model is None:
            from .residual import ResidualModel  # imports parts of SciPy, which a fixed K does without

            measured = list(self._measured.values())
            self._model = ResidualModel.of(
                [candidate for candidate, _ in measured],
                [latency_s for _, latency_s in measured],
                [number for number, _ in self._measured],
            )
        return self._model


class _Member(Surrogate):
    """View of one task on the surrogate of its group."""

    def __init__(self, group: _Group, number: int) -> None:
        self._group = group
        self._number = number

    def learn(self, candidates: Sequence[Embedded], latencies_s: Sequence[float]) -> None:
        self._group.learn(self._number, candidates, latencies_s)

    @property
    def is_fitted(self) -> bool:
        return self._group.ran(self._number)

    @property
    def is_informed(self) -> bool:
        return self._group.ran()

    def first_batch(
        self, left: Sequence[Embedded], count: int, cost: NDArray[np.floating] | float = 1.0
    ) -> NDArray[np.int64]:
        from .residual import first_batch  # imports parts of SciPy

        return first_batch(left, count, cost, self._group.model if self.is_informed else None)

    def best_batch(
        self, left: Sequence[Embedded], count: int, cost: NDArray[np.floating] | float = 1.0
    ) -> tuple[NDArray[np.int64], float]:
        return self._group.model.best_of(left, count, cost, self._number)

    def corrected(
        self, embeddings: NDArray[np.floating], scores: NDArray[np.floating]
    ) -> NDArray[np.floating]:
        return self._group.model.corrected(embeddings, scores) if self.is_informed else scores
