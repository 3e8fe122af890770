"""Reads the traces of a task: its few sketches once, and of each trace the decisions alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .sketch import Sketch, read_sketch
from .structure import TaskStructure


class SketchReader:
    """Remembers the sketches of one task."""

    def __init__(self, structure: TaskStructure) -> None:
        self.structure = structure
        self._sketches: list[Sketch] = []

    def read(self, trace: str) -> tuple[Sketch, list[int]]:
        """As `read_sketch`, of the JSON of a trace; what it raises, and ValueError for a broken text."""
        for sketch in self._sketches:
            if (values := sketch.values_in(trace)) is not None:
                return sketch, values
        sketch, values = read_sketch(json.loads(trace), self.structure)
        self._sketches.append(sketch)
        return sketch, values

    def by_sketch(self, traces: Sequence[str]) -> Iterator[tuple[Sketch, NDArray[np.int64], list[int]]]:
        """Yields each sketch of some traces (JSON) with values, int64 [m, width], and places in `traces`.

        Traces of another task or of a newer TVM are passed over.
        """
        of_sketch: dict[str, tuple[Sketch, list[list[int]], list[int]]] = {}
        for number, trace in enumerate(traces):
            try:
                sketch, values = self.read(trace)
            except (ValueError, KeyError, IndexError, TypeError):
                continue
            _, rows, numbers = of_sketch.setdefault(sketch.instructions, (sketch, [], []))
            rows.append(values)
            numbers.append(number)
        for sketch, rows, numbers in of_sketch.values():
            yield sketch, np.array(rows, dtype=np.int64), numbers
