"""Surrogates of tasks: one per task, or one for several tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .base import Embedded, Surrogate

if TYPE_CHECKING:
    from .residual import ResidualModel

SIBLING_PROGRAMS = 16
"""Number of programs of each other task that a task learns from: its first, which are chosen to differ."""

SIBLINGS = 24
"""Maximum number of other tasks that a task learns from, those with the most programs; time grows
cubically."""


class Surrogates:
    """Surrogates by name. Tasks with the same name share measurements.

    Each task has its own latency level, with or without sharing. The tasks of a group share the errors of the
    frozen model over embeddings (FamilySeer shares a cost model among the tasks of a family, section 5.1).
    """

    def __init__(self) -> None:
        self._groups: defaultdict[str, _SharedMeasurements] = defaultdict(_SharedMeasurements)

    def of(self, task: str, group: str = "") -> Surrogate:
        """Surrogate of a task by workload hash. `group` names a shared surrogate; "" is unshared."""
        return _TaskSurrogate(self._groups[group or task], task)


def own_surrogate() -> Surrogate:
    """A surrogate that no other task shares."""
    return Surrogates().of("task")


class _SharedMeasurements:
    """Measurements of the tasks that share a surrogate, and the models fitted to them."""

    def __init__(self) -> None:
        self._measured: defaultdict[str, dict[str, tuple[Embedded, float]]] = defaultdict(dict)
        self._models: dict[str, ResidualModel | None] = {}

    def learn(self, task: str, candidates: Sequence[Embedded], latencies_s: Sequence[float]) -> None:
        for candidate, latency_s in zip(candidates, latencies_s, strict=True):
            self._measured[task][candidate.trace] = candidate, latency_s
        self._models.clear()

    def has_run(self, task: str) -> bool:
        """Whether a candidate of the task ran."""
        return bool(self._ran(task))

    def siblings_of(self, task: str) -> list[str]:
        """Other tasks with a candidate that ran. A task whose programs all fail carries no information."""
        return [other for other in self._measured if other != task and self.has_run(other)]

    def model(self, task: str, width: int) -> ResidualModel | None:
        """Model of a task with embeddings of this width; None if no candidate with such embeddings ran.

        The task has the number 0 in the model.
        """
        if task not in self._models:
            told = {other: self._ran(other)[:SIBLING_PROGRAMS] for other in self.siblings_of(task)}
            most = sorted(told, key=lambda other: -len(told[other]))[:SIBLINGS]
            rows = [(0, *pair) for pair in self._ran(task)]
            rows += [(number, *pair) for number, other in enumerate(most, 1) for pair in told[other]]
            self._models[task] = _fitted_model([row for row in rows if len(row[1].embedding) == width])
        return self._models[task]

    def _ran(self, task: str) -> list[tuple[Embedded, float]]:
        found = self._measured[task].values() if task in self._measured else ()
        return [(candidate, latency_s) for candidate, latency_s in found if np.isfinite(latency_s)]


def _fitted_model(rows: Sequence[tuple[int, Embedded, float]]) -> ResidualModel | None:
    if not rows:
        return None
    from .residual import ResidualModel  # imports parts of SciPy; a fixed K does not need them

    numbers, candidates, latencies_s = zip(*rows, strict=True)
    return ResidualModel.of(candidates, latencies_s, numbers)


class _TaskSurrogate(Surrogate):
    """View of one task on the surrogate of its group."""

    def __init__(self, group: _SharedMeasurements, task: str) -> None:
        self._group = group
        self._task = task

    def learn(self, candidates: Sequence[Embedded], latencies_s: Sequence[float]) -> None:
        self._group.learn(self._task, candidates, latencies_s)

    @property
    def is_fitted(self) -> bool:
        return self._group.has_run(self._task)

    @property
    def is_informed(self) -> bool:
        return self.is_fitted or self.is_primed

    @property
    def is_primed(self) -> bool:
        return bool(self._group.siblings_of(self._task))

    def first_batch(
        self, left: Sequence[Embedded], count: int, cost: NDArray[np.floating] | float = 1.0
    ) -> NDArray[np.int64]:
        from .residual import first_batch  # imports parts of SciPy

        return first_batch(left, count, cost, self._model(left[0].embedding))

    def best_batch(
        self, left: Sequence[Embedded], count: int, cost: NDArray[np.floating] | float = 1.0
    ) -> tuple[NDArray[np.int64], float]:
        model = self._model(left[0].embedding)
        if model is None:  # only start candidates ran that nothing rated
            return self.first_batch(left, count, cost), 1.0
        return model.best_of(left, count, cost)

    def corrected(
        self, embeddings: NDArray[np.floating], scores: NDArray[np.floating]
    ) -> NDArray[np.floating]:
        model = self._model(embeddings[0]) if len(embeddings) else None
        return scores if model is None else model.corrected(embeddings, scores)

    def _model(self, embedding: NDArray[np.floating]) -> ResidualModel | None:
        return self._group.model(self._task, len(embedding))
