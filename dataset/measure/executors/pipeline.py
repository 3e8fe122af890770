"""Measurement in two stages: compiler processes feed one timing process for each device.

Both stages run at the same time, because the device is not the compiling CPU. One thread watches all
processes; callers of `measure` wait for their outcomes.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from ...hardware import Hardware
from ...records.schema import FailureKind
from ..job import MeasureConfig, MeasureJob, MeasureOutcome, outcome_from_reply
from ..machine_errors import BatchEndedError
from ..worker.losses import KILLS_ALLOWED, Losses, WorkersKilledError
from ..worker.process import WorkerLostError, WorkerSpec, WorkerStartError, existing_pids
from ..worker.scratch import ScratchFolder
from . import stages
from .pool import REFERENCE_TIMEOUT_S
from .stages import KeptLibraries, QueuedBuild, QueuedReference, References, StageWorker, WorkItem

_MAX_LOSSES = 1
"""Number of retries of a candidate whose device was lost while it ran: a dead process or connection."""


class Pipeline:
    """Executor that compiles on this machine and times on one or several devices; thread-safe.

    `describe` returns the description of the devices. A process that dies, hangs or whose device has become
    unusable is replaced. A candidate whose device is lost is timed once more. What a killed process did is
    repeated.
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
        self._references = References(self._new_path)
        self._kept = KeptLibraries()
        self._to_compile: deque[WorkItem] = deque()
        self._to_time: deque[QueuedBuild] = deque()
        self._pending: set[QueuedBuild] = set()
        self._compilers: list[StageWorker] = []
        self._timers: list[StageWorker] = []
        self._inbox: deque[QueuedBuild] = deque()
        self._wake_sender, self._wake_receiver = Pipe()
        self._closing = False
        self._stopping = False
        self._inbox_lock = threading.Lock()
        self._ended_by: Exception | None = None
        self._losses = Losses()
        self._thread = threading.Thread(target=self._work, args=(compilers, devices), daemon=True)
        self._thread.start()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._wake_sender.send_bytes(b".")
            self._thread.join()
            self._wake_sender.close()
            self._wake_receiver.close()
            self._folder.cleanup()

    @property
    def compiler_pids(self) -> list[int]:
        return existing_pids(worker.process for worker in self._compilers)

    @property
    def device_pids(self) -> list[int]:
        return existing_pids(worker.process for worker in self._timers)

    @property
    def stage_pids(self) -> dict[str, list[int]]:
        return {"building": self.compiler_pids, "timing": self.device_pids}

    def hardware(self) -> Hardware:
        return self._describe()

    def measure(self, jobs: Sequence[MeasureJob]) -> list[MeasureOutcome]:
        """Measure jobs; returns one outcome for each, in order.

        A latency measured earlier in a call also counts as the best one that cuts slow programs short. Raises
        DevicesLostError if no process starts or no device is available, and BatchEndedError after
        `stop_waiting`; both have the outcomes so far.
        """
        builds = stages.queued(jobs, self.devices, self._new_path)
        with self._inbox_lock:
            if self._ended_by is not None:
                raise self._ended_by
            self._inbox.extend(builds)
        self._wake_sender.send_bytes(b".")
        return stages.gathered(builds)

    def stop_waiting(self) -> None:
        """Drop all programs that no process has begun to build, now and from now on."""
        self._stopping = True
        self._wake_sender.send_bytes(b".")

    def _new_path(self, suffix: str) -> Path:
        return self._folder.path / f"{next(self._numbers)}{suffix}"

    def _work(self, compilers: Sequence[WorkerSpec], devices: Sequence[WorkerSpec]) -> None:
        """Loop of the thread: assign work to idle processes and handle replies until `close`."""
        ended: Exception = RuntimeError("the executor was closed")
        try:
            self._compilers += [StageWorker(spec) for spec in compilers]
            self._timers += [StageWorker(spec) for spec in devices]
            while not self._closing:
                self._take_inbox()
                if self._stopping:
                    self._give_up_waiting()
                self._dispatch()
                self._wait_and_handle()
        except Exception as error:  # callers of `measure` would wait forever
            ended = error
        finally:
            for worker in self._all_workers:
                worker.process.kill()
            with self._inbox_lock:
                self._ended_by = ended
                self._pending.update(self._inbox)
            self._fail_all(ended)

    @property
    def _all_workers(self) -> list[StageWorker]:
        return [*self._compilers, *self._timers]

    def _fail_all(self, error: Exception) -> None:
        for build in self._pending:
            build.future.set_exception(error)
        for queue in (self._pending, self._references, self._to_compile, self._to_time):
            queue.clear()

    def _give_up_waiting(self) -> None:
        begun = {worker.item for worker in self._compilers if isinstance(worker.item, QueuedBuild)}
        waiting = {c for c in self._pending if c not in begun and not c.ready}
        self._pending -= waiting
        self._to_compile.clear()
        for build in waiting:
            build.future.set_exception(BatchEndedError([]))

    def _take_inbox(self) -> None:
        """Accept new candidates, and restart processes that were given up."""
        arrived = False
        while self._inbox:
            build = self._inbox.popleft()
            arrived = True
            self._pending.add(build)
            if new := self._references.attach(build, self._pending):
                self._to_compile.append(new)
            if kept := self._kept.of(build.job):
                build.artefact = kept
                self._forward(build)
            else:
                self._to_compile.append(build)
        if arrived:
            for worker in self._all_workers:
                if worker.missing:
                    worker.failed_starts = 0
                    worker.restart()

    def _forward(self, build: QueuedBuild) -> None:
        if build.ready and build in self._pending:
            self._to_time.append(build)

    def _dispatch(self) -> None:
        for worker in self._compilers:
            if self._to_compile and worker.is_free():
                item = self._to_compile.popleft()
                is_reference = isinstance(item, QueuedReference)
                worker.assign(item, REFERENCE_TIMEOUT_S if is_reference else self.config.build_timeout_s)
        for index, worker in enumerate(self._timers):
            build = next((c for c in self._to_time if c.device in (None, index)), None)
            if build is not None and worker.is_free():
                self._to_time.remove(build)
                worker.assign(build, self.config.run_timeout_s)

    def _wait_and_handle(self) -> None:
        """Wait for the next message or deadline and handle it."""
        busy = [worker for worker in self._all_workers if not worker.idle and not worker.missing]
        now = time.monotonic()
        timeout = min((max(0.0, worker.deadline - now) for worker in busy), default=None)
        wait([self._wake_receiver, *(worker.process.connection for worker in busy)], timeout)
        if self._wake_receiver.poll():
            self._wake_receiver.recv_bytes()
        for worker in busy:
            if worker.process.connection.poll() or time.monotonic() >= worker.deadline:
                self._handle_message(worker)

    def _handle_message(self, worker: StageWorker) -> None:
        item, worker.item = worker.item, None
        timing = worker in self._timers
        try:
            if item is None:
                worker.process.receive_ready(0.0)
                worker.failed_starts = 0
                self._clear_suspect(worker)
                return
            reply = worker.process.receive(
                0.0, FailureKind.RUN_TIMEOUT if timing else FailureKind.BUILD_TIMEOUT
            )
        except WorkerLostError as lost:
            self._handle_loss(worker, item, lost)
            return
        self._losses.answered()
        if isinstance(item, QueuedReference):
            self._finish_reference(item, reply.get("error"))
        elif timing:
            self._timed(worker, item, reply)
        else:
            self._compiled(item, reply, time.monotonic() - worker.asked_at)

    def _handle_loss(self, worker: StageWorker, item: WorkItem | None, lost: WorkerLostError) -> None:
        """Replace a process that died or hangs, and finish its item."""
        message = str(lost)
        if lost.kind is not FailureKind.WORKER_DIED:
            message = f"no answer within {worker.deadline - worker.asked_at:g} s"
        if lost.killed and item is not None and self._is_repeated(worker, item, lost):
            pass
        elif (
            isinstance(item, QueuedBuild) and worker in self._timers and lost.kind is FailureKind.WORKER_DIED
        ):
            self._time_again(worker, item, message)
        elif isinstance(item, QueuedBuild):
            self._fail(item, lost.kind, message, self._device_of(worker))
        elif isinstance(item, QueuedReference):
            self._finish_reference(item, message)
        else:
            worker.failed_starts += 1
            if worker.missing:
                worker.process.kill()
                killed = lost.killed is not None
                self._handle_missing(worker, worker.process.start_failure_message(message, killed=killed))
                return
        worker.restart()

    def _is_repeated(self, worker: StageWorker, item: WorkItem, lost: WorkerLostError) -> bool:
        """Queue the item of a killed process again, unless that happened too often."""
        try:
            self._losses.killed(lost, id(item))
        except WorkersKilledError as error:
            self._fail_all(error)
            return True
        return self._queue_again(worker, item, KILLS_ALLOWED)

    def _queue_again(self, worker: StageWorker, item: WorkItem, most: int) -> bool:
        """Queue an item that lost its process or device, `most` times at most; whether it is queued."""
        item.losses += 1
        if item.losses <= most:
            (self._to_time if worker in self._timers else self._to_compile).appendleft(item)  # type: ignore
        return item.losses <= most

    def _handle_missing(self, worker: StageWorker, problem: str) -> None:
        """Continue without a worker; fail all candidates if it was the last of its stage."""
        stage = self._timers if worker in self._timers else self._compilers
        if all(other.missing for other in stage):
            self._fail_all(WorkerStartError(problem))
        elif stage is self._timers:
            if worker.suspect is not None:
                self._to_time.appendleft(worker.suspect[0])
                worker.suspect = None
            index = stage.index(worker)
            for build in self._pending:
                if build.device == index:
                    build.device = None

    def _finish_reference(self, reference: QueuedReference, problem: str | None) -> None:
        for build in reference.finished(problem):
            self._forward(build)

    def _compiled(self, build: QueuedBuild, reply: dict[str, Any], build_s: float) -> None:
        build.build_s = build_s
        if "error" in reply:
            self._fail(build, FailureKind.BUILD_ERROR, reply["error"])
            return
        build.artefact = reply
        self._kept.keep(build, self._pending)
        self._forward(build)

    def _timed(self, worker: StageWorker, build: QueuedBuild, reply: dict[str, Any]) -> None:
        if "stale" in reply:
            worker.prepare()
            self._to_time.appendleft(build)
            return
        if "lost" in reply:
            worker.prepare()
            self._time_again(worker, build, reply["lost"])
            return
        outcome = outcome_from_reply(reply, build.build_s, self._device_of(worker))
        outcome = replace(outcome, unchecked=build.reference is not None and build.reference.failed)
        if reply.get("usable", True):
            self._finish(build, outcome)
        else:
            # The program is at fault only if the device works without it.
            worker.suspect = build, outcome
            worker.restart()

    def _clear_suspect(self, worker: StageWorker) -> None:
        if worker.suspect is not None:
            self._finish(*worker.suspect)
            worker.suspect = None

    def _time_again(self, worker: StageWorker, build: QueuedBuild, reason: str) -> None:
        """Requeue a candidate that lost its device, or fail it if this happens too often."""
        if not self._queue_again(worker, build, _MAX_LOSSES):
            self._fail(build, FailureKind.WORKER_DIED, reason, self._device_of(worker))

    def _device_of(self, worker: StageWorker) -> int:
        """Index of a worker's device, 0 for a compiler."""
        return self._timers.index(worker) if worker in self._timers else 0

    def _fail(self, build: QueuedBuild, kind: FailureKind, message: str, device: int = 0) -> None:
        outcome = MeasureOutcome(failure=kind, message=message, build_s=build.build_s, device=device)
        self._finish(build, outcome)

    def _finish(self, build: QueuedBuild, outcome: MeasureOutcome) -> None:
        if build not in self._pending:
            return
        self._pending.remove(build)
        if build.artefact is not None:
            self._kept.discard(build.artefact, self._pending)
        else:
            build.path.unlink(missing_ok=True)
        task = build.job.task
        build.best_s[task] = min(build.best_s[task], outcome.latency_s)
        build.future.set_result(outcome)
