"""Interface of latency sources for tasks and programs: a device, or a cost model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tvm.s_tir import meta_schedule as ms

from ....compiler.task import Task
from ...reuse.parent import ReuseParent

TUNED, SEARCHED, TEMPLATE = "tuning database", "short search", "template"
UNTUNED, PREDICTED = "no schedule", "predicted"
"""Origins of a latency."""

TURNS = 3
"""Number of times that compared programs are measured, in turns."""

OnProgress = Callable[[str, float], None]
"""Receives the name of a finished task, and the finished share of all tasks in [0, 1]."""


@dataclass(frozen=True)
class Latency:
    """Seconds of one call of a task with its best program."""

    seconds: float
    source: str
    """Origin of the program, such as TUNED or SEARCHED."""


@dataclass(frozen=True, eq=False)
class TaskPrograms:
    """Programs of one task, with the context in which they were made."""

    task: Task
    context: ms.TuneContext
    candidates: list[ms.MeasureCandidate]


class LatencySource(ABC):
    """Provides latencies of tasks with their best programs, and latencies of given programs."""

    measured: bool
    """Whether a device measures the latencies."""
    checkpoint: str
    """Name of the cost model that predicts the latencies; "" if a device measures them."""

    @property
    def disturbed(self) -> bool:
        """Whether other work of the machine disturbed a measurement, of this run or one that it continues."""
        return False

    @property
    def just_disturbed(self) -> bool:
        """Whether other work disturbed the latest call of `turns_s`."""
        return False

    @abstractmethod
    def best(
        self,
        tasks: Sequence[Task],
        parents: Mapping[str, Sequence[ReuseParent]],
        on_progress: OnProgress,
    ) -> dict[str, Latency]:
        """Latency of each task by workload hash. A task without a known program that runs is absent.

        `parents` are programs of other tasks from which the search of a task starts, by workload hash.
        """

    @abstractmethod
    def fastest(self, task: Task, most: int) -> list[str]:
        """Up to `most` canonical traces of a task whose latency `best` has returned, the fastest first."""

    @abstractmethod
    def turns_s(self, programs: Sequence[TaskPrograms]) -> list[list[list[float]]]:
        """Seconds of each program of each task in each turn; inf for a failed program.

        In a turn, all programs follow each other. A prediction has one turn.
        """
