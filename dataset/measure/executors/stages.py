"""Work items and worker processes of the two stages of a `Pipeline`."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..job import MeasureJob, MeasureOutcome
from ..worker.process import WorkerProcess, WorkerSpec


@dataclass
class QueuedReference:
    """Unscheduled program of a task, and the candidates that wait for its outputs."""

    key: str
    module: str
    path: Path
    waiting: list[QueuedBuild] = field(default_factory=list)
    done: bool = False
    failed: bool = False
    """Whether it ended without outputs; its candidates are measured unchecked."""

    def request(self) -> dict[str, Any]:
        return {"op": "reference", "module": self.module, "path": str(self.path)}


@dataclass(eq=False)
class QueuedBuild:
    """Job on its way through both stages; candidates of a call share `best_s`, the best latency by task."""

    job: MeasureJob
    best_s: dict[str, float]
    path: Path
    future: Future[MeasureOutcome] = field(default_factory=Future)
    reference: QueuedReference | None = None
    artefact: dict[str, Any] | None = None
    build_s: float = 0.0
    losses: int = 0
    device: int | None = None

    @property
    def ready(self) -> bool:
        """Whether the candidate can be timed."""
        return self.artefact is not None and (self.reference is None or self.reference.done)

    def request(self) -> dict[str, Any]:
        """Next request to a process."""
        if self.artefact is None:
            return {
                "op": "export",
                "module": self.job.module,
                "path": str(self.path),
                "checked": self.job.reference is not None,
            }
        return {
            "op": "time",
            "artefact": self.artefact,
            "best_latency_s": self.best_s[self.job.task],
            "expected": str(self.reference.path) if self.reference and not self.reference.failed else None,
            "keep": self.job.keep_built,
        }


WorkItem = QueuedReference | QueuedBuild


class StageWorker:
    """Process of a stage with its current item and deadline."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.item: WorkItem | None = None
        self.suspect: tuple[QueuedBuild, MeasureOutcome] | None = None
        """Program after which the device was unusable, with its outcome if the device comes back."""
        self.failed_starts = 0
        self.asked_at = 0.0
        self.start()

    def start(self) -> None:
        self.process = WorkerProcess(self.spec)
        self.deadline = time.monotonic() + self.spec.start_timeout_s

    def restart(self) -> None:
        self.process.kill()
        self.start()

    def prepare(self) -> None:
        """Make the process connect to its device again."""
        self.process.ready = False
        self.process.send({"op": "prepare"})
        self.deadline = time.monotonic() + self.spec.start_timeout_s

    def assign(self, item: WorkItem, timeout_s: float) -> None:
        self.item = item
        self.asked_at = time.monotonic()
        self.deadline = self.asked_at + timeout_s
        self.process.send(item.request())

    @property
    def idle(self) -> bool:
        return self.process.ready and self.item is None

    @property
    def missing(self) -> bool:
        """Whether the process or its device failed to start as often as allowed."""
        return self.failed_starts >= self.spec.start_attempts
