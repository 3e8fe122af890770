"""Measurement in two stages: processes that compile feed one process a device, which times.

Both stages work at the same time, which does no harm where the device is not the CPU that compiles. One
thread watches over all processes; whatever calls `measure` only waits for its outcomes.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from ..hardware import Hardware
from ..records import FailureKind
from .job import MeasureConfig, MeasureJob, MeasureOutcome, outcome_of_run
from .pool import REFERENCE_TIMEOUT_S, REFERENCES_KEPT
from .process import WorkerGone, WorkerProcess, WorkerSpec, WorkerStartError
from .roles import LIBRARIES_KEPT
from .scratch import ScratchFolder

_LOSSES_ALLOWED = 1
"""How often a candidate is tried again after the connection to its device broke while it ran."""


@dataclass
class _Reference:
    """The unscheduled program of a task, and the candidates that wait for what it computes."""

    key: str
    module: str
    path: Path
    waiting: list[_Candidate] = field(default_factory=list)
    done: bool = False

    def request(self) -> dict[str, Any]:
        return {"op": "reference", "module": self.module, "path": str(self.path)}


@dataclass(eq=False)
class _Candidate:
    """A job on its way through both stages. `best_s` is shared by the candidates of a call, by task."""

    job: MeasureJob
    best_s: dict[str, float]
    path: Path
    future: Future[MeasureOutcome] = field(default_factory=Future)
    reference: _Reference | None = None
    artefact: dict[str, Any] | None = None
    build_s: float = 0.0
    losses: int = 0
    device: int | None = None

    @property
    def ready(self) -> bool:
        """Whether nothing is missing for the timing."""
        return self.artefact is not None and (self.reference is None or self.reference.done)

    def request(self) -> dict[str, Any]:
        """What is asked of a process next."""
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
            "expected": str(self.reference.path) if self.reference else None,
            "keep": self.job.keep_built,
        }


_Errand = _Reference | _Candidate


class _Station:
    """One process of a stage, the errand that it is on, and by when it must answer."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.errand: _Errand | None = None
        self.failed_starts = 0
        self.asked_at = 0.0
        self.start()

    def start(self) -> None:
        self.worker = WorkerProcess(self.spec)
        self.deadline = time.monotonic() + self.spec.start_timeout_s

    def restart(self) -> None:
        self.worker.kill()
        self.start()

    def prepare(self) -> None:
        """Has the process connect to its device again."""
        self.worker.ready = False
        self.worker.send({"op": "prepare"})
        self.deadline = time.monotonic() + self.spec.start_timeout_s

    def give(self, errand: _Errand, timeout_s: float) -> None:
        self.errand = errand
        self.asked_at = time.monotonic()
        self.deadline = self.asked_at + timeout_s
        self.worker.send(errand.request())

    @property
    def idle(self) -> bool:
        return self.worker.ready and self.errand is None

    @property
    def missing(self) -> bool:
        """Whether its process, or the device behind it, did not come up as often as it may fail to."""
        return self.failed_starts >= self.spec.start_attempts


class Pipeline:
    """Compiles on this machine, times on one device or several; `measure` may be called from several threads.

    `describe` describes the devices. A process that dies, hangs or finds its device spoilt is replaced.
    """

    batches_overlap = True

    def __init__(
        self,
        config: MeasureConfig,
        compilers: Sequence[WorkerSpec],
        devices: Sequence[WorkerSpec],
        describe: Callable[[], Hardware],
    ) -> None:
        self.config = config
        self.devices = len(devices)
        self._describe = describe
        self._folder = ScratchFolder()
        self._numbers = iter(range(2**62))
        self._references: OrderedDict[str, _Reference] = OrderedDict()
        self._kept: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._to_compile: deque[_Errand] = deque()
        self._to_time: deque[_Candidate] = deque()
        self._open: set[_Candidate] = set()
        self._compile_stations: list[_Station] = []
        self._device_stations: list[_Station] = []
        self._inbox: deque[_Candidate] = deque()
        self._wake_up, self._woken = Pipe()
        self._closing = False
        self._handing_in = threading.Lock()
        self._ended: Exception | None = None
        # Workers end with the thread that starts them: this one lives until `close`.
        self._thread = threading.Thread(target=self._work, args=(compilers, devices), daemon=True)
        self._thread.start()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._wake_up.send_bytes(b".")
            self._thread.join()
            self._wake_up.close()
            self._woken.close()
            self._folder.cleanup()

    @property
    def compiler_pids(self) -> list[int]:
        return [station.worker.process.pid for station in self._compile_stations]

    @property
    def device_pids(self) -> list[int]:
        return [station.worker.process.pid for station in self._device_stations]

    def hardware(self) -> Hardware:
        return self._describe()

    def measure(self, jobs: Sequence[MeasureJob]) -> list[MeasureOutcome]:
        """One outcome a job, in order. Within a call, the best latency so far also cuts slow programs.

        Raises WorkerStartError where no process comes up, or no device is there.
        """
        best_s: dict[str, float] = {}
        for job in jobs:
            best_s[job.task] = min(best_s.get(job.task, float("inf")), job.best_latency_s)
            if job.device is not None and not 0 <= job.device < self.devices:
                raise ValueError(f"device={job.device}: this executor has {self.devices}, counted from 0")
        candidates = [_Candidate(job, best_s, self._new_path(".so"), device=job.device) for job in jobs]
        with self._handing_in:
            if self._ended is not None:
                raise self._ended
            self._inbox.extend(candidates)
        self._wake_up.send_bytes(b".")
        return [candidate.future.result() for candidate in candidates]

    def _new_path(self, suffix: str) -> Path:
        return self._folder.path / f"{next(self._numbers)}{suffix}"

    def _work(self, compilers: Sequence[WorkerSpec], devices: Sequence[WorkerSpec]) -> None:
        """The thread: hands errands to idle processes and takes what they reply, until `close`."""
        ended: Exception = RuntimeError("the executor was closed")
        try:
            self._compile_stations += [_Station(spec) for spec in compilers]
            self._device_stations += [_Station(spec) for spec in devices]
            while not self._closing:
                self._receive()
                self._hand_out()
                self._attend()
        except Exception as error:  # it would leave the callers of `measure` waiting for ever
            ended = error
        finally:
            for station in self._stations:
                station.worker.kill()
            with self._handing_in:
                self._ended = ended
                self._open.update(self._inbox)
            self._fail_open(ended)

    @property
    def _stations(self) -> list[_Station]:
        return [*self._compile_stations, *self._device_stations]

    def _fail_open(self, error: Exception) -> None:
        for candidate in self._open:
            candidate.future.set_exception(error)
        self._open.clear()
        self._references.clear()
        self._to_compile.clear()
        self._to_time.clear()

    def _receive(self) -> None:
        """Takes in new candidates; what was missing gets another chance with them."""
        arrived = False
        while self._inbox:
            candidate = self._inbox.popleft()
            arrived = True
            self._open.add(candidate)
            self._refer(candidate)
            if candidate.job.keep_built and candidate.job.key in self._kept:
                candidate.artefact = self._kept[candidate.job.key]
                self._forward(candidate)
            else:
                self._to_compile.append(candidate)
        if arrived:
            for station in self._stations:
                if station.missing:
                    station.failed_starts = 0
                    station.restart()

    def _refer(self, candidate: _Candidate) -> None:
        """Finds the reference of a candidate, or orders it."""
        job = candidate.job
        if job.reference is None:
            return
        if job.reference_key not in self._references:
            reference = _Reference(job.reference_key, job.reference, self._new_path(".npz"))
            self._references[reference.key] = reference
            self._to_compile.append(reference)
            self._forget_references()
        self._references.move_to_end(job.reference_key)
        candidate.reference = self._references[job.reference_key]
        candidate.reference.waiting.append(candidate)

    def _forget_references(self) -> None:
        in_use = {candidate.reference.key for candidate in self._open if candidate.reference}
        for key in list(self._references)[:-REFERENCES_KEPT]:
            if key not in in_use and self._references[key].done:
                self._references.pop(key).path.unlink()

    def _forward(self, candidate: _Candidate) -> None:
        if candidate.ready and candidate in self._open:
            self._to_time.append(candidate)

    def _hand_out(self) -> None:
        for station in self._compile_stations:
            if self._to_compile and self._fit(station):
                errand = self._to_compile.popleft()
                referring = isinstance(errand, _Reference)
                station.give(errand, REFERENCE_TIMEOUT_S if referring else self.config.build_timeout_s)
        for index, station in enumerate(self._device_stations):
            candidate = next((c for c in self._to_time if c.device in (None, index)), None)
            if candidate is not None and self._fit(station):
                self._to_time.remove(candidate)
                station.give(candidate, self.config.run_timeout_s)

    def _fit(self, station: _Station) -> bool:
        """Whether a station can take an errand; one killed while it had nothing to do is started again."""
        if station.idle and not station.worker.alive:
            station.restart()
        return station.idle

    def _attend(self) -> None:
        """Waits for the next message or deadline and deals with it."""
        busy = [station for station in self._stations if not station.idle and not station.missing]
        now = time.monotonic()
        timeout = min((max(0.0, station.deadline - now) for station in busy), default=None)
        wait([self._woken, *(station.worker.connection for station in busy)], timeout)
        if self._woken.poll():
            self._woken.recv_bytes()
        for station in busy:
            if station.worker.connection.poll() or time.monotonic() >= station.deadline:
                self._take(station)

    def _take(self, station: _Station) -> None:
        errand, station.errand = station.errand, None
        timing = station in self._device_stations
        try:
            if errand is None:
                station.worker.take_ready(0.0)
                station.failed_starts = 0
                return
            reply = station.worker.receive(
                0.0, FailureKind.RUN_TIMEOUT if timing else FailureKind.BUILD_TIMEOUT
            )
        except WorkerGone as gone:
            self._bury(station, errand, gone)
            return
        if isinstance(errand, _Reference):
            self._refer_to(errand, reply.get("error"))
        elif timing:
            self._timed(station, errand, reply)
        else:
            self._compiled(errand, reply, time.monotonic() - station.asked_at)

    def _bury(self, station: _Station, errand: _Errand | None, gone: WorkerGone) -> None:
        """Replaces a process that ended or hangs, and settles what it was at."""
        message = str(gone)
        if gone.kind is not FailureKind.WORKER_DIED:
            message = f"no answer within {station.deadline - station.asked_at:g} s"
        if isinstance(errand, _Candidate):
            self._fail(errand, gone.kind, message, self._device_of(station))
        elif isinstance(errand, _Reference):
            self._refer_to(errand, message)
        else:
            station.failed_starts += 1
            if station.missing:
                station.worker.kill()
                self._miss(station, message)
                return
        station.restart()

    def _miss(self, station: _Station, reason: str) -> None:
        """Does without a station; where it was the last of its stage, nothing can be measured."""
        stage = self._device_stations if station in self._device_stations else self._compile_stations
        if all(other.missing for other in stage):
            self._fail_open(WorkerStartError(station.worker.start_failure(reason)))
        elif stage is self._device_stations:
            index = stage.index(station)
            for candidate in self._open:
                if candidate.device == index:
                    candidate.device = None

    def _refer_to(self, reference: _Reference, problem: str | None) -> None:
        """Lets the candidates of a reference go on, or fail with it."""
        reference.done = problem is None
        if problem is not None:
            self._references.pop(reference.key, None)
        for candidate in reference.waiting:
            if problem is None:
                self._forward(candidate)
            else:
                self._fail(candidate, FailureKind.RUN_ERROR, f"unscheduled program: {problem}")
        reference.waiting.clear()

    def _compiled(self, candidate: _Candidate, reply: dict[str, Any], build_s: float) -> None:
        candidate.build_s = build_s
        if "error" in reply:
            self._fail(candidate, FailureKind.BUILD_ERROR, reply["error"])
            return
        candidate.artefact = reply
        if candidate.job.keep_built:
            self._kept[candidate.job.key] = reply
            if len(self._kept) > LIBRARIES_KEPT:
                self._discard(self._kept.popitem(last=False)[1])
        self._forward(candidate)

    def _timed(self, station: _Station, candidate: _Candidate, reply: dict[str, Any]) -> None:
        if "stale" in reply or "lost" in reply:
            station.prepare()
            candidate.losses += "lost" in reply
            if candidate.losses <= _LOSSES_ALLOWED:
                self._to_time.appendleft(candidate)
            else:
                self._fail(candidate, FailureKind.WORKER_DIED, reply["lost"], self._device_of(station))
            return
        if not reply.get("usable", True):
            station.restart()
        self._settle(candidate, outcome_of_run(reply, candidate.build_s, self._device_of(station)))

    def _device_of(self, station: _Station) -> int:
        """Number of a station's device; a station that compiles counts as that of the first."""
        return self._device_stations.index(station) if station in self._device_stations else 0

    def _fail(self, candidate: _Candidate, kind: FailureKind, message: str, device: int = 0) -> None:
        self._settle(
            candidate,
            MeasureOutcome(failure=kind, message=message, build_s=candidate.build_s, device=device),
        )

    def _discard(self, artefact: dict[str, Any]) -> None:
        """Deletes the library of what is not kept and what no candidate waits to have timed."""
        in_use = [*self._kept.values(), *(candidate.artefact for candidate in self._open)]
        if "library" in artefact and not any(other is artefact for other in in_use):
            Path(artefact["library"]).unlink(missing_ok=True)

    def _settle(self, candidate: _Candidate, outcome: MeasureOutcome) -> None:
        if candidate not in self._open:
            return
        self._open.remove(candidate)
        if candidate.artefact is not None:
            self._discard(candidate.artefact)
        else:
            candidate.path.unlink(missing_ok=True)
        task = candidate.job.task
        candidate.best_s[task] = min(candidate.best_s[task], outcome.latency_s)
        candidate.future.set_result(outcome)
