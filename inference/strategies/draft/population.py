"""Population of one sketch: the candidates that a drafting search has rated."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ....compiler.structure.domains import DomainError
from ....compiler.structure.nest import Nest
from ....compiler.structure.space import Choices, SketchSpace

Rate: TypeAlias = Callable[[NDArray[np.int64]], NDArray[np.floating]]
"""Function from values of candidates of one sketch, int64 [n, width], to scores [n]; higher is faster."""

Allowed: TypeAlias = Callable[[Nest], NDArray[np.bool_]]
"""Function from loop nests to the mask of allowed candidates, bool [n]."""

_TRIES = 30
"""Draws per requested candidate. On a GPU few random tiles are within the limits."""

PARENT_SHARE = 0.125
"""Share of a sketch's best candidates that are parents, at least 16 candidates."""


class Population:
    """Candidates of one sketch. Each candidate is new, allowed and rated once."""

    def __init__(self, space: SketchSpace, rate: Rate, allowed: Allowed | None = None) -> None:
        """An `allowed` of None allows the whole space."""
        self.space = space
        self.choices: Choices = np.zeros((0, len(space.domains)), dtype=np.int32)
        self.scores: NDArray[np.float32] = np.zeros(0, dtype=np.float32)
        self._rate = rate
        self._is_allowed = allowed

    def add_traces(self, traces: Sequence[str]) -> None:
        """Adds candidates by their traces. Traces of other sketches are left out."""
        rows = []
        for trace in traces:
            if (values := self.space.sketch.values_in(trace)) is not None:
                # An unknown location in this space is not a reason to fail.
                with contextlib.suppress(DomainError):
                    rows.append(self.space.choices(np.array([values], dtype=np.int64)))
        if rows:
            self.add(np.concatenate(rows))

    def add(self, choices: Choices) -> None:
        """Rates new, allowed candidates and adds them."""
        fresh = self._new(choices)
        if len(fresh):
            rated = self._rate(self.space.values(fresh)).astype(np.float32)
            self.choices = np.concatenate([self.choices, fresh])
            self.scores = np.concatenate([self.scores, rated])

    def sample(self, count: int, rng: np.random.Generator) -> Choices:
        """Up to `count` different candidates, drawn uniformly from the allowed ones."""
        found = self._none()
        for _ in range(_TRIES):
            if len(found) >= count or count < 1:
                break
            drawn = self._allowed(self.space.canonical(self.space.sample(max(2 * count, 64), rng)))
            found = self.space.unique(np.concatenate([found, drawn]))
        return found[:count]

    def children(self, count: int, mutation_probability: float, rng: np.random.Generator) -> Choices:
        """Up to `count` new candidates: mutations and crossovers of the best ones."""
        if not len(self.scores) or count < 1:
            return self._none()
        best = max(round(PARENT_SHARE * min(len(self.scores), 8 * count)), min(16, len(self.scores)))
        parents = self.choices[np.argsort(-self.scores, kind="stable")[:best]]
        found = self._none()
        for _ in range(4):
            left, right = (parents[_biased_ranks(best, 2 * count, rng)] for _ in range(2))
            mutated = self.space.mutate(left, rng)
            crossed = self.space.crossover(left, right, rng)
            made = np.where(rng.random((len(left), 1)) < mutation_probability, mutated, crossed)
            fresh = self._new(made)
            found = self.space.unique(np.concatenate([found, fresh])) if len(fresh) else found
            if len(found) >= count:
                break
        return found[:count]

    def traces(self, rows: NDArray[np.int64]) -> list[str]:
        """Canonical JSON of the traces of the candidates in `rows`."""
        return self.space.traces(self.choices[rows])

    def keys(self) -> list[Any]:
        """Hashable keys of the candidates. Keys are equal if and only if candidates are equal."""
        return self.space.keys(self.choices).tolist() if len(self.choices) else []

    def neighbours(self, row: int, chosen: Sequence[int]) -> int:
        """Number of chosen candidates that differ from the candidate in `row` in at most one decision."""
        if not chosen:
            return 0
        different = (self.choices[list(chosen)] != self.choices[row]).sum(axis=1)
        return int((different <= 1).sum())

    def _new(self, choices: Choices) -> Choices:
        """Candidates that are distinct, allowed and new."""
        if not len(choices):
            return choices
        rows = self.space.unique(self.space.canonical(choices))
        if len(self.choices):
            rows = rows[~np.isin(self.space.keys(rows), self.space.keys(self.choices))]
        return self._allowed(rows)

    def _allowed(self, choices: Choices) -> Choices:
        if self._is_allowed is None or not len(choices):
            return choices
        return choices[self._is_allowed(Nest.of(self.space.sketch, self.space.values(choices)))]

    def _none(self) -> Choices:
        return np.zeros((0, len(self.space.domains)), dtype=np.int32)


def _biased_ranks(size: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Ranks below `size`, biased towards better ranks: the smaller of two uniform draws."""
    return np.minimum(rng.integers(0, size, count), rng.integers(0, size, count))
