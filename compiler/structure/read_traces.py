"""Reads the traces of a task: each of its few sketches once, then only the decisions of each trace."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .read_sketch import read_sketch
from .sketch import Sketch
from .structure import TaskStructure


class SketchReader:
    """Reader of a task's traces that caches the sketches it has seen."""

    def __init__(self, structure: TaskStructure) -> None:
        self.structure = structure
        self._sketches: list[Sketch] = []

    def read(self, trace: str) -> tuple[Sketch, list[int]]:
        """Sketch and values of a trace (JSON), as `read_sketch`; raises ValueError for invalid JSON, too."""
        for sketch in self._sketches:
            if (values := sketch.values_in(trace)) is not None:
                return sketch, values
        sketch, values = read_sketch(json.loads(trace), self.structure)
        self._sketches.append(sketch)
        return sketch, values

    def group_by_sketch(self, traces: Sequence[str]) -> Iterator[tuple[Sketch, NDArray[np.int64], list[int]]]:
        """Group traces (JSON) by sketch; yield each sketch, its values int64 [m, width] and trace indices.

        Traces of another task or of a newer TVM are skipped.
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
