"""Work items and worker processes of the two stages of a `Pipeline`."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..job import MeasureJob, MeasureOutcome
from ..machine_errors import BatchEndedError, DevicesLostError
from ..worker.process import WorkerProcess, WorkerSpec, WorkerStartError
from ..worker.reference import warn_unchecked
from ..worker.roles import LIBRARIES_KEPT
from .pool import REFERENCES_KEPT


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
    losses: int = 0

    def request(self) -> dict[str, Any]:
        return {"op": "reference", "module": self.module, "path": str(self.path)}

    def finished(self, problem: str | None) -> list[QueuedBuild]:
        """Candidates that waited; a reference with a problem is not run again."""
        self.done, self.failed = True, problem is not None
        if problem is not None:
            warn_unchecked(problem)
        released, self.waiting = self.waiting, []
        return released


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


def queued(jobs: Sequence[MeasureJob], devices: int, new_path: Callable[[str], Path]) -> list[QueuedBuild]:
    """Builds of the jobs of a call; raises ValueError for a device that is none of `devices`."""
    best_s: dict[str, float] = {}
    for job in jobs:
        best_s[job.task] = min(best_s.get(job.task, float("inf")), job.best_latency_s)
        if job.device is not None and not 0 <= job.device < devices:
            raise ValueError(f"device={job.device}: must be from 0 to {devices - 1}")
    return [QueuedBuild(job, best_s, new_path(".so"), device=job.device) for job in jobs]


def gathered(builds: Sequence[QueuedBuild]) -> list[MeasureOutcome]:
    """Outcomes of builds, after waiting for all of them.

    Raises DevicesLostError or BatchEndedError with the outcomes so far if some builds ended without one.
    """
    errors = [error for build in builds if (error := build.future.exception()) is not None]
    if not errors:
        return [build.future.result() for build in builds]
    outcomes = [b.future.result() if b.future.exception() is None else None for b in builds]
    if isinstance(errors[0], WorkerStartError):
        raise DevicesLostError(str(errors[0]), outcomes) from errors[0]
    if isinstance(errors[0], BatchEndedError):
        raise BatchEndedError(outcomes)
    raise errors[0]


class References:
    """References of the tasks that were measured last, by key."""

    def __init__(self, new_path: Callable[[str], Path]) -> None:
        """`new_path` returns a new path with a suffix."""
        self._new_path = new_path
        self._known: OrderedDict[str, QueuedReference] = OrderedDict()

    def attach(self, build: QueuedBuild, pending: Collection[QueuedBuild]) -> QueuedReference | None:
        """Attach a candidate to its reference; returns the reference if it is new and must be run.

        References that none of the `pending` candidates uses are forgotten, the oldest first.
        """
        job, new = build.job, None
        if job.reference is None:
            return None
        if job.reference_key not in self._known:
            new = QueuedReference(job.reference_key, job.reference, self._new_path(".npz"))
            self._known[new.key] = new
            self._forget(pending)
        self._known.move_to_end(job.reference_key)
        build.reference = self._known[job.reference_key]
        build.reference.waiting.append(build)
        return new

    def _forget(self, pending: Collection[QueuedBuild]) -> None:
        in_use = {build.reference.key for build in pending if build.reference}
        for key in list(self._known)[:-REFERENCES_KEPT]:
            if key not in in_use and self._known[key].done:
                self._known.pop(key).path.unlink(missing_ok=True)

    def clear(self) -> None:
        self._known.clear()


class KeptLibraries:
    """Libraries of jobs that will be timed again, by the key of the job; the oldest are forgotten."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def of(self, job: MeasureJob) -> dict[str, Any] | None:
        """Kept library of a job, or None."""
        return self._kept.get(job.key) if job.keep_built else None

    def keep(self, build: QueuedBuild, pending: Collection[QueuedBuild]) -> None:
        """Keep the library of a build if its job asks for it."""
        if build.job.keep_built and build.artefact is not None:
            self._kept[build.job.key] = build.artefact
            if len(self._kept) > LIBRARIES_KEPT:
                self.discard(self._kept.popitem(last=False)[1], pending)

    def discard(self, artefact: dict[str, Any], pending: Collection[QueuedBuild]) -> None:
        """Delete a library that is neither kept nor needed by a pending candidate."""
        in_use = [*self._kept.values(), *(build.artefact for build in pending)]
        if "library" in artefact and not any(other is artefact for other in in_use):
            Path(artefact["library"]).unlink(missing_ok=True)


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

    def is_free(self) -> bool:
        """Whether the worker can take an item; restarts a worker that was killed while idle."""
        if self.idle and not self.process.alive:
            self.restart()
        return self.idle

    @property
    def missing(self) -> bool:
        """Whether the process or its device failed to start as often as allowed."""
        return self.failed_starts >= self.spec.start_attempts
