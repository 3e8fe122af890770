"""Interface of start sources: candidates that a search of a task begins with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from ...compiler.task import Task


@dataclass(frozen=True)
class Start:
    """One candidate to begin with."""

    trace: str
    """Canonical trace (JSON); one that does not replay on the task is passed over."""
    latency_s: float | None = None
    """Latency in seconds on this device, inf for a failure; None where it is to be measured."""
    alone: bool = False
    """Whether the task takes it as it is, without a search, unless it does not replay."""


class StartSource(ABC):
    """Gives searches candidates to begin with, such as those of an earlier run or of a similar task."""

    @abstractmethod
    def starts(self, task: Task) -> Sequence[Start]:
        """Candidates that a task begins with.

        Those with a latency teach the search. Those without are measured before others: in the first round,
        and in later ones where it has no room for all.
        """
