"""Candidates of a task on a GPU as rows of decisions, within the limits of a thread block.

MetaSchedule draws decisions at random, replays them into a program, and lets its postprocessors reject what a
GPU has no room for: 99 of 100 programs. Rows are checked by the thousand before any replay.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tvm.s_tir.schedule import Schedule, Trace

from ..replay import trace_content
from .domains import DomainError
from .limits import GpuLimits, within_limits
from .nest import Nest
from .read_sketch import read_sketch
from .space import Choices, SketchSpace
from .structure import TaskStructure

_LOG = logging.getLogger(__name__)

_BATCH, _BATCHES = 2048, 24
"""Rows that are drawn at a time, and how often before a sketch counts as one without a legal row."""

_CHANGES = 64
"""Changed rows that are drawn for one that is legal."""


class RowSpace:
    """Sketches of a task with their legal rows.

    `unread` has the traces of the sketches that cannot be read as rows; their decisions are drawn by TVM.
    `dropped` counts the rows outside the limits by cause.
    """

    def __init__(
        self, spaces: Sequence[SketchSpace], limits: GpuLimits, unread: Sequence[Trace] = ()
    ) -> None:
        self.spaces = list(spaces)
        self.unread = list(unread)
        self.dropped: Counter[str] = Counter()
        self._limits = limits
        self._ready: list[list[Choices]] = [[] for _ in self.spaces]

    @classmethod
    def read(cls, designs: Sequence[Schedule], structure: TaskStructure, limits: GpuLimits) -> RowSpace:
        """Rows of MetaSchedule's design spaces of a task."""
        spaces, unread = [], []
        for design in designs:
            content = trace_content(design.trace)
            try:
                sketch, _ = read_sketch(content, structure)
                if any(decision.kind == "location" for decision in sketch.decisions):
                    raise ValueError("compute locations depend on the program")
                spaces.append(SketchSpace.from_traces([content], structure))
            except (ValueError, KeyError, IndexError, TypeError) as error:
                _LOG.info("a sketch cannot be read as rows, so that TVM draws its programs: %s", error)
                unread.append(Trace(design.trace.insts, {}))
        return cls(spaces, limits, unread)

    def draw(self, rng: np.random.Generator) -> str | Trace | None:
        """Trace of a legal candidate, its sketch and decisions drawn evenly.

        Of a sketch that cannot be read, a trace without decisions, which TVM draws. None if the drawn sketch
        has no legal row.
        """
        number = int(rng.integers(len(self.spaces) + len(self.unread)))
        if number >= len(self.spaces):
            return self.unread[number - len(self.spaces)]
        ready = self._ready[number]
        if not ready:
            ready += list(self._drawn(self.spaces[number], rng))
        return self.spaces[number].traces(ready.pop()[None])[0] if ready else None

    def changed(self, trace: str, rng: np.random.Generator) -> str | None:
        """Trace of a legal candidate with another value of one decision; None if none is found."""
        found = self._row(trace)
        if found is None:
            return None
        space, row = found
        return self._legal(space, space.mutate(np.repeat(row, _CHANGES, axis=0), rng))

    def crossed(self, left: str, right: str, rng: np.random.Generator) -> str | None:
        """Trace of a legal candidate with each decision of either parent; None if none is found."""
        one, other = self._row(left), self._row(right)
        if one is None or other is None or one[0] is not other[0]:
            return None
        left_rows, right_rows = (np.repeat(row, _CHANGES, axis=0) for _, row in (one, other))
        children = one[0].crossover(left_rows, right_rows, rng)
        return self._legal(one[0], children[(children != one[1]).any(axis=1)])

    def allows(self, trace: str) -> bool:
        """Whether a trace is within the limits; True for one that cannot be read."""
        found = self._row(trace)
        return found is None or self._legal(*found) is not None

    def _row(self, trace: str) -> tuple[SketchSpace, Choices] | None:
        for space in self.spaces:
            if (values := space.sketch.values_in(trace)) is not None:
                try:
                    return space, space.choices(np.array([values], dtype=np.int64))
                except DomainError:  # TVM has other factors of this loop
                    return None
        return None

    def _drawn(self, space: SketchSpace, rng: np.random.Generator) -> Choices:
        for _ in range(_BATCHES):
            rows = space.sample(_BATCH, rng)
            legal = space.unique(rows[self._mask(space, rows)])
            if len(legal):
                return rng.permutation(legal)
        return space.sample(0, rng)

    def _legal(self, space: SketchSpace, rows: Choices) -> str | None:
        """Trace of the first legal row."""
        legal = rows[self._mask(space, rows)] if len(rows) else rows
        return space.traces(legal[:1])[0] if len(legal) else None

    def _mask(self, space: SketchSpace, rows: Choices) -> NDArray[np.bool_]:
        return within_limits(Nest.of(space.sketch, space.values(rows)), self._limits, self.dropped)
