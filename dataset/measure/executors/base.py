"""Interface of all executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Protocol, runtime_checkable

from typing_extensions import Self

from ...hardware import Hardware
from ..job import MeasureJob, MeasureOutcome


@runtime_checkable
class KeepsObjects(Protocol):
    """Executor that compiles programs to object files which a library can link."""

    def object_file(self, job: MeasureJob) -> bytes | None:
        """Object file of a measured job with `keep_built`; None if its library is not kept any more."""


class Executor(Protocol):
    """Executor that builds candidates in parallel and times one at a time on each of its devices."""

    @property
    def devices(self) -> int:
        """Number of devices, which time in parallel."""

    @property
    def batches_overlap(self) -> bool:
        """Whether concurrent calls of `measure` run in parallel rather than sequentially."""

    @property
    def stage_pids(self) -> Mapping[str, Sequence[int]]:
        """Processes on this machine by their role: building, timing, or both in measuring."""

    def hardware(self) -> Hardware:
        """Description of the devices, which are all of one kind."""

    def measure(self, jobs: Sequence[MeasureJob]) -> list[MeasureOutcome]:
        """Measure jobs; returns one outcome for each, in order. A failing candidate never raises."""

    def close(self) -> None:
        """Stop processes and close connections; later calls do nothing."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
