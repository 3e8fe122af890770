"""Interface of start sources, which provide the first candidates of a task's search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from ...compiler.task import Task


@dataclass(frozen=True)
class Start:
    """One start candidate."""

    trace: str
    """Canonical trace (JSON); a trace that does not replay on the task is skipped."""
    latency_s: float | None = None
    """Latency in seconds on this device, inf for a failure; None for a candidate to be measured."""
    alone: bool = False
    """Whether the task uses the candidate without a search. If it does not replay, the task is searched."""


class StartSource(ABC):
    """Provides start candidates of searches, such as programs of an earlier run or of a similar task."""

    @abstractmethod
    def starts(self, task: Task) -> Sequence[Start]:
        """Start candidates of a task.

        Candidates with a latency teach the search. Candidates without one are measured before others, in the
        first round and, if it has no room for all, in later rounds.
        """
