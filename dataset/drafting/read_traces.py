"""Reads the traces of a task: its few sketches once, and of each trace the decisions alone."""

from __future__ import annotations

import json

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
