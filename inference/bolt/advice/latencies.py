"""Interface of what tells latencies of tasks and of programs: a device, or a cost model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tvm.s_tir import meta_schedule as ms

from ....compiler.task import Task
from ...reuse.parent import ReuseParent

TUNED, SEARCHED, TEMPLATE = "tuning database", "short search", "template"
UNTUNED, PREDICTED = "no schedule", "predicted"
"""Sources of a latency."""

OnProgress = Callable[[str, float], None]
"""Hears the name of a task that is done, and the share of all that is done, in [0, 1]."""


@dataclass(frozen=True)
class Latency:
    """Seconds of one call of a task by its best program."""

    seconds: float
    source: str
    """Where the program comes from, such as TUNED or SEARCHED."""


@dataclass(frozen=True, eq=False)
class TaskPrograms:
    """Programs of one task, with the context that they were made in."""

    task: Task
    context: ms.TuneContext
    candidates: list[ms.MeasureCandidate]


class LatencySource(ABC):
    """Tells latencies of tasks by their best programs, and of given programs."""

    measured: bool
    """Whether a device tells them."""
    checkpoint: str
    """Name of the cost model that predicts them, "" where a device tells them."""

    @abstractmethod
    def best(
        self,
        tasks: Sequence[Task],
        parents: Mapping[str, Sequence[ReuseParent]],
        on_progress: OnProgress,
    ) -> dict[str, Latency]:
        """Latency of each task by workload hash; none for a task of which no program is known or runs.

        `parents` are programs of other tasks that the search of a task begins with, by workload hash.
        """

    @abstractmethod
    def fastest(self, task: Task, most: int) -> list[str]:
        """Canonical traces of a task that `best` has told of, the fastest first, `most` at most."""

    @abstractmethod
    def latencies_s(self, programs: Sequence[TaskPrograms]) -> list[list[float]]:
        """Seconds of each program of each task, all under the same conditions; inf for one that fails."""
