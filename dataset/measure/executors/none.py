"""Executor without devices, for runs that measure nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...hardware import Hardware
from ..job import MeasureJob, MeasureOutcome


class NoExecutor:
    """Executor that describes a device and measures nothing on it."""

    devices = 0
    batches_overlap = False
    stage_pids: Mapping[str, Sequence[int]] = {}

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware

    def hardware(self) -> Hardware:
        """The device that the executor was created with."""
        return self._hardware

    def measure(self, jobs: Sequence[MeasureJob]) -> list[MeasureOutcome]:
        """Raises RuntimeError for any job."""
        if jobs:
            raise RuntimeError(f"{len(jobs)} programs to measure in a run that measures nothing")
        return []

    def close(self) -> None:
        """Does nothing."""

    def __enter__(self) -> NoExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
