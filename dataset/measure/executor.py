"""What measures: the interface that every kind of executor has, wherever its devices are."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol

from typing_extensions import Self

from ..hardware import Hardware
from .job import MeasureJob, MeasureOutcome


class Executor(Protocol):
    """Builds candidates side by side and times one at a time on each of its devices."""

    @property
    def devices(self) -> int:
        """How many devices time side by side."""

    @property
    def batches_overlap(self) -> bool:
        """Whether calls of `measure` from several threads are worked on at once, not one after the other."""

    def hardware(self) -> Hardware:
        """Describes the devices, which are all of one kind."""

    def measure(self, jobs: Sequence[MeasureJob]) -> list[MeasureOutcome]:
        """One outcome a job, in order; a candidate that fails in any way is an outcome, not an exception."""

    def close(self) -> None:
        """Ends its processes and connections; calling it again does nothing."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
