"""Sketch with the domains of its decisions; samples, mutates and reads back candidates in NumPy.

A candidate is a row of *choices*, int32 [n_decisions]: for each decision an index into its table of values.
Its *values*, int64 [width], are the tile factors, categorical indices and locations at these indices.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .domains import DomainError, Table, domain
from .nest import atom_extents
from .read_sketch import read_sketch
from .sketch import Sketch
from .structure import TaskStructure

Choices = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class SketchSpace:
    """Design space of a task, as a sketch and the domain of each decision."""

    sketch: Sketch
    domains: tuple[Table, ...]

    @classmethod
    def from_traces(cls, traces: Sequence[Any], structure: TaskStructure) -> SketchSpace:
        """Space of valid traces (parsed JSON) that share one list of instructions.

        Raises ValueError if `traces` is empty or holds different sketches.
        """
        read = [read_sketch(trace, structure) for trace in traces]
        if not read or len({sketch.instructions for sketch, _ in read}) != 1:
            raise ValueError(f"{len(read)} traces: pass at least one, and only traces of one sketch")
        sketch = read[0][0]
        seen = np.array([values for _, values in read], dtype=np.int64)
        parts = [seen[:, d.column : d.column + d.width] for d in sketch.decisions]
        tables = [domain(d, part.tolist()) for d, part in zip(sketch.decisions, parts, strict=True)]
        for source, number in sketch.producers:
            first = min(int(tables[number][0, 0]), -1)
            # TVM does not always accept a producer read at a quotient index (grouped channels) in a tile.
            quotient = any(t.divisor > 1 for terms in sketch.block.reads[source].indices for t in terms or ())
            loops = 0 if quotient else len(sketch.loop_starts) - 1
            tables[number] = np.arange(first, loops, dtype=np.int64)[:, None]
        return cls(sketch, tuple(tables))

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of values of each decision, int64 [n_decisions]."""
        return np.array([len(table) for table in self.domains], dtype=np.int64)

    @property
    def size(self) -> float:
        """Number of candidates of the space."""
        return float(np.prod(self.sizes, dtype=np.float64))

    def sample(self, n: int, rng: np.random.Generator) -> Choices:
        """Sample `n` candidates with uniform decisions; choices [n, n_decisions]."""
        return rng.integers(0, self.sizes, size=(n, len(self.domains))).astype(np.int32)

    def mutate(self, choices: Choices, rng: np.random.Generator) -> Choices:
        """Neighbours of candidates: each row gets another value for one decision that has several."""
        free = np.flatnonzero(self.sizes > 1)
        changed = choices.copy()
        if len(free) == 0 or len(choices) == 0:
            return changed
        rows = np.arange(len(choices))
        decision = free[rng.integers(0, len(free), len(choices))]
        sizes = self.sizes[decision]
        step = 1 + (rng.random(len(choices)) * (sizes - 1)).astype(np.int64)
        changed[rows, decision] = (changed[rows, decision] + step) % sizes
        return changed

    def crossover(self, left: Choices, right: Choices, rng: np.random.Generator) -> Choices:
        """Uniform crossover: children take each decision from either parent with equal probability."""
        return np.where(rng.random(left.shape) < 0.5, left, right)

    def keys(self, choices: Choices) -> NDArray[Any]:
        """Comparable key of each row, [n]; keys are equal exactly where rows are."""
        if self.size < 2**62:
            strides = np.cumprod([1, *self.sizes[:-1]]) if len(self.sizes) else np.zeros(0)
            number: NDArray[np.int64] = choices.astype(np.int64) @ strides.astype(np.int64)
            return number
        rows = np.ascontiguousarray(choices)
        return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()

    def unique(self, choices: Choices) -> Choices:
        """Rows without duplicates, in order of first occurrence."""
        return choices[np.sort(np.unique(self.keys(choices), return_index=True)[1])]

    def canonical(self, choices: Choices) -> Choices:
        """Candidates with the compute locations that TVM will choose, so that equal programs have equal rows.

        TVM accepts a producer at a loop of more than one iteration, outside of the first spatial loop inside
        a reduction loop. It moves a producer at any other location outwards to the nearest accepted loop.
        """
        if not self.sketch.producers:
            return choices
        moved = choices.copy()
        legal = self.legal_locations(choices)
        rows = np.arange(len(choices))
        for _, number in self.sketch.producers:
            table = self.domains[number][:, 0]
            wanted = table[choices[:, number]]
            taken = np.where(wanted >= 0, legal[np.maximum(wanted, 0), rows], wanted)
            # A narrowed domain may lack the location that TVM takes: the choice then stays unchanged.
            place = np.minimum(np.searchsorted(table, taken), len(table) - 1)
            moved[:, number] = np.where(table[place] == taken, place, choices[:, number])
        return moved

    def legal_locations(self, choices: Choices) -> NDArray[np.int64]:
        """Nearest legal loop at or outside of each loop, -1 if there is none; [n_loops, n]."""
        starts = self.sketch.loop_starts
        of_loops = atom_extents(self.sketch, self.values(choices))[: starts[-1]]
        long = np.maximum.reduceat(of_loops, starts[:-1], axis=0) > 1
        reduction = self.sketch.block.reduction
        reduces = np.array([reduction[self.sketch.atoms[end - 1].axis] for end in starts[1:]])[:, None]
        within = np.logical_or.accumulate(long & reduces)  # inside a reduction loop
        over = np.logical_or.accumulate(long & ~reduces & within)
        loops = np.arange(len(starts) - 1)[:, None]
        return np.maximum.accumulate(np.where(long & ~over, loops, -1))

    def values(self, choices: Choices) -> NDArray[np.int64]:
        """Values of the candidates, int64 [n, width]."""
        if not self.domains:
            return np.zeros((len(choices), 0), dtype=np.int64)
        return np.concatenate([t[choices[:, i]] for i, t in enumerate(self.domains)], axis=1)

    def choices(self, values: NDArray[np.int64]) -> Choices:
        """Choices of values, the inverse of `values`; raises DomainError for a value outside of a domain."""
        found = np.empty((len(values), len(self.domains)), dtype=np.int32)
        for i, (decision, rows) in enumerate(zip(self.sketch.decisions, self._rows, strict=True)):
            part = values[:, decision.column : decision.column + decision.width]
            for row, value in enumerate(map(tuple, part.tolist())):
                if value not in rows:
                    raise DomainError(
                        f"decision {decision.instruction} ({decision.kind}) cannot be {value}: "
                        f"not among the {len(rows)} values of its domain"
                    )
                found[row, i] = rows[value]
        return found

    def traces(self, choices: Choices) -> list[str]:
        """Canonical JSON of each candidate's trace, as `compiler.replay.replay` accepts it."""
        rows = self.values(choices).tolist()
        return [f"[{self.sketch.instructions},{self._decided(row)}]" for row in rows]

    def _decided(self, row: list[int]) -> str:
        decided = [
            [d.instruction, row[d.column : d.column + d.width] if d.kind == "tile" else row[d.column]]
            for d in self.sketch.decisions
        ]
        return json.dumps(decided, separators=(",", ":"))

    @cached_property
    def _rows(self) -> list[dict[tuple[int, ...], int]]:
        return [{tuple(value): row for row, value in enumerate(t.tolist())} for t in self.domains]
