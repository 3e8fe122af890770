"""Executor without devices that returns prepared outcomes and remembers its jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from foretune.dataset.hardware import Hardware
from foretune.dataset.measure import MeasureJob, MeasureOutcome

HARDWARE = Hardware(
    name="fake device",
    kind="cpu",
    cores=2,
    frequency_ghz=1.0,
    vector_bits=256,
    l1_bytes=1,
    l2_bytes=2,
    l3_bytes=3,
    peak_gflops=1.0,
    bandwidth_gbs=1.0,
)


class FakeExecutor:
    """Answers jobs with `answer(job)`, and noise probes, which have `keep_built`, with `probe(job)`."""

    stage_pids: Mapping[str, Sequence[int]] = {}

    def __init__(
        self,
        answer: Callable[[MeasureJob], MeasureOutcome] = lambda job: MeasureOutcome((1e-3,)),
        probe: Callable[[MeasureJob], MeasureOutcome] = lambda job: MeasureOutcome((1e-3,)),
        devices: int = 1,
        batches_overlap: bool = True,
    ) -> None:
        self.devices = devices
        self.batches_overlap = batches_overlap
        self.asked: list[MeasureJob] = []
        self.closed = False
        self._answer, self._probe = answer, probe
        self._lock = threading.Lock()

    def hardware(self) -> Hardware:
        return HARDWARE

    def measure(self, jobs: Sequence[MeasureJob]) -> list[MeasureOutcome]:
        with self._lock:
            self.asked += [job for job in jobs if not job.keep_built]
            return [self._probe(job) if job.keep_built else self._answer(job) for job in jobs]

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> FakeExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
