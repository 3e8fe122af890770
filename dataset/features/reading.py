"""Reading of one unscheduled task: its structure, sketches and features, each read at most once."""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
import tvm
from numpy.typing import NDArray

from ...compiler.structure.read_structure import read_structure
from ...compiler.structure.read_traces import SketchReader
from ...compiler.structure.structure import TaskStructure
from ...compiler.task import count_flops
from .task import task_features


class TaskReading:
    """Lazy reading of a task's module, shared by drafting, embeddings and features."""

    def __init__(self, mod: tvm.IRModule) -> None:
        """`mod` is the unscheduled task with one PrimFunc `main`."""
        self.mod = mod

    @cached_property
    def structure(self) -> TaskStructure:
        """Blocks and loops; raises what `read_structure` raises for loops that cannot be read."""
        return read_structure(self.mod)

    @cached_property
    def sketches(self) -> SketchReader:
        """Reader of the task's traces, which remembers the sketches met so far."""
        return SketchReader(self.structure)

    @cached_property
    def flops(self) -> float:
        """Floating-point operations."""
        return count_flops(self.mod)

    @cached_property
    def features(self) -> NDArray[np.float32]:
        """Task features, float32 [TASK_DIM]."""
        return task_features(self.mod)


@lru_cache(maxsize=64)  # the tasks of a search process; equal keys are the same TVM object
def task_reading(mod: tvm.IRModule) -> TaskReading:
    """The reading of a module, the same for every caller that has the same module object."""
    return TaskReading(mod)
