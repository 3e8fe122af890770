"""Local measurement: long-lived worker processes that build side by side and time one at a time."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from multiprocessing import Pipe
from multiprocessing.connection import wait

from tvm.target import Target

from ...errors import UserError
from ..records import FailureKind
from ..tvm_compat import available_cores, target_cores, target_to_json
from .job import MeasureConfig, MeasureJob, MeasureOutcome

_START_TIMEOUT_S = 120.0
_START_ATTEMPTS = 3


class WorkerStartError(UserError, RuntimeError):
    """A measuring process could not be started."""


class _WorkerGone(Exception):
    """The worker died or hung while it held a request."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class _Worker:
    """One measuring process and the connection to it."""

    def __init__(self, target: Target, config: MeasureConfig) -> None:
        self.connection, theirs = Pipe()
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        cores = target_cores(target)
        environment = {**os.environ, "TVM_NUM_THREADS": str(cores), "OMP_NUM_THREADS": str(cores)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "foretune.dataset.measure.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # LLVM and candidates print; nothing of it is for the user
            stderr=self.errors,
            start_new_session=True,
        )
        theirs.close()
        self.ready = False
        self.send({"target": target_to_json(target), "config": asdict(config)})

    def wait_ready(self) -> None:
        if self.ready:
            return
        try:
            self.receive(_START_TIMEOUT_S, FailureKind.BUILD_TIMEOUT)
        except _WorkerGone as gone:
            raise WorkerStartError(
                f"measuring process: {gone}; `{sys.executable} -c 'import tvm'` shows whether TVM starts"
            ) from gone
        self.ready = True

    def send(self, message: dict) -> None:
        # A dead worker shows at the next receive, which says of what it died.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send_bytes(json.dumps(message).encode())

    def receive(self, timeout_s: float, on_timeout: FailureKind) -> dict:
        """The reply to the request in flight; raises _WorkerGone after death or `timeout_s` seconds."""
        if not self.connection.poll(timeout_s):
            raise _WorkerGone(on_timeout, f"no answer within {timeout_s:g} s")
        try:
            return json.loads(self.connection.recv_bytes())
        except (EOFError, ConnectionResetError, OSError):
            raise _WorkerGone(FailureKind.WORKER_DIED, self._cause_of_death()) from None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.connection.close()
        self.errors.close()

    def _cause_of_death(self) -> str:
        code = self.process.wait()
        cause = f"killed by signal {-code}" if code < 0 else f"exited with code {code}"
        self.errors.seek(0)
        tail = self.errors.read().decode(errors="replace").strip()[-500:]
        return f"{cause}: {tail}" if tail else cause


class WorkerPool:
    """Measures candidates on this machine.

    Building uses every worker at once; timing uses one worker while the others wait, because two programs
    timed together disturb each other. A worker that dies or hangs is replaced, its candidate becomes a typed
    failure, and what else it had built is built again.
    """

    def __init__(
        self, target: Target, config: MeasureConfig | None = None, workers: int | None = None
    ) -> None:
        self.target = target
        self.config = config or MeasureConfig()
        self._workers = [_Worker(target, self.config) for _ in range(workers or available_cores())]

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()
        self._workers = []

    @property
    def worker_pids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers]

    def measure(self, jobs: Sequence[MeasureJob]) -> list[MeasureOutcome]:
        """One outcome a job, in order. Within a call, the best latency so far also cuts slow programs."""
        outcomes: dict[int, MeasureOutcome] = {}
        best_s = min((job.best_latency_s for job in jobs), default=math.inf)
        while len(outcomes) < len(jobs):
            pending = [number for number in range(len(jobs)) if number not in outcomes]
            built = self._build(jobs, pending, outcomes)
            for number, (slot, build_s) in built.items():
                worker = self._workers[slot]
                if number in outcomes or not worker.ready:
                    continue  # its worker was replaced a moment ago: built again in the next round
                outcome = self._run(slot, number, best_s, build_s)
                best_s = min(best_s, outcome.latency_s)
                outcomes[number] = outcome
        return [outcomes[number] for number in range(len(jobs))]

    def _build(
        self, jobs: Sequence[MeasureJob], pending: list[int], outcomes: dict[int, MeasureOutcome]
    ) -> dict[int, tuple[int, float]]:
        """Builds what is pending; returns slot of the worker and seconds by job, and notes failures."""
        queue = list(reversed(pending))
        in_flight: dict[int, tuple[int, float]] = {}  # slot -> job, deadline
        built: dict[int, tuple[int, float]] = {}
        while queue or in_flight:
            for slot in range(len(self._workers)):
                if queue and slot not in in_flight:
                    number = queue.pop()
                    worker = self._ready_worker(slot)
                    worker.send({"op": "build", "job": number, "module": jobs[number].module})
                    in_flight[slot] = (number, time.monotonic() + self.config.build_timeout_s)
            next_deadline = min(deadline for _, deadline in in_flight.values())
            wait(
                [self._workers[slot].connection for slot in in_flight],
                timeout=max(0.0, next_deadline - time.monotonic()),
            )
            for slot, (number, deadline) in list(in_flight.items()):
                worker = self._workers[slot]
                if not worker.connection.poll() and time.monotonic() < deadline:
                    continue
                del in_flight[slot]
                try:
                    reply = worker.receive(0.0, FailureKind.BUILD_TIMEOUT)
                except _WorkerGone as gone:
                    message = str(gone)
                    if gone.kind is FailureKind.BUILD_TIMEOUT:
                        message = f"not built within {self.config.build_timeout_s:g} s"
                    outcomes[number] = MeasureOutcome(failure=gone.kind, message=message)
                    lost = [job for job, (at, _) in built.items() if at == slot]
                    for job in lost:
                        del built[job]
                    queue.extend(lost)
                    self._replace(slot)
                    continue
                if "error" in reply:
                    outcomes[number] = MeasureOutcome(failure=FailureKind.BUILD_ERROR, message=reply["error"])
                else:
                    built[number] = (slot, reply["build_s"])
        return built

    def _run(self, slot: int, number: int, best_s: float, build_s: float) -> MeasureOutcome:
        worker = self._workers[slot]
        worker.send({"op": "run", "job": number, "best_latency_s": best_s if math.isfinite(best_s) else None})
        try:
            reply = worker.receive(self.config.run_timeout_s, FailureKind.RUN_TIMEOUT)
        except _WorkerGone as gone:
            self._replace(slot)
            return MeasureOutcome(failure=gone.kind, message=str(gone), build_s=build_s)
        if "error" in reply:
            return MeasureOutcome(failure=FailureKind.RUN_ERROR, message=reply["error"], build_s=build_s)
        return MeasureOutcome(
            run_secs=tuple(reply["run_secs"]),
            cut_short=reply["cut_short"],
            build_s=build_s,
            run_s=reply["run_s"],
        )

    def _ready_worker(self, slot: int) -> _Worker:
        """The worker of a slot once it has started; one killed while starting is tried again."""
        for attempts_left in reversed(range(_START_ATTEMPTS)):
            try:
                self._workers[slot].wait_ready()
                break
            except WorkerStartError:
                if not attempts_left:
                    raise
                self._replace(slot)
        return self._workers[slot]

    def _replace(self, slot: int) -> None:
        self._workers[slot].kill()
        self._workers[slot] = _Worker(self.target, self.config)
