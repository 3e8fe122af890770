"""Measurement on the local CPU: worker processes build in parallel and time one at a time."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from tvm.target import Target

from ....compiler.tvm_compat import available_cores
from ...hardware import Hardware
from ...hardware.target_hardware import target_hardware
from ...records.schema import FailureKind
from ..job import MeasureConfig, MeasureJob, MeasureOutcome, outcome_from_reply
from ..machine_errors import DevicesLostError
from ..worker.losses import KILLS_ALLOWED, Losses
from ..worker.process import WorkerLostError, WorkerProcess, WorkerStartError, existing_pids, host_spec
from ..worker.reference import warn_unchecked
from ..worker.roles import LIBRARIES_KEPT
from ..worker.scratch import ScratchFolder

REFERENCE_TIMEOUT_S = 60.0
"""Time limit of an unscheduled program in seconds, which is slow and runs once for each task."""

REFERENCES_KEPT = 16


@dataclass(frozen=True)
class _Request:
    """Request that any worker can serve, with its time limit."""

    message: Mapping[str, Any]
    timeout_s: float


@dataclass(frozen=True)
class _Answer:
    """Reply of a worker, or the way in which it was lost."""

    worker: WorkerProcess
    reply: Mapping[str, Any]
    gone: WorkerLostError | None = None

    @property
    def problem(self) -> str | None:
        return str(self.gone) if self.gone else self.reply.get("error")


class WorkerPool:
    """Executor for the local CPU.

    Building uses all workers at once. Timing uses one worker while the others wait, because programs timed
    together disturb each other. A worker that dies or hangs is replaced; its candidate becomes a typed
    failure, and its other built candidates are built again. If something else killed the worker, such as a
    lack of memory, its candidate is built or timed again, while no other one is built.
    """

    devices = 1
    batches_overlap = False

    def __init__(
        self, target: Target, config: MeasureConfig | None = None, workers: int | None = None
    ) -> None:
        self.target = target
        self.config = config or MeasureConfig()
        self.timing_context: Callable[[], AbstractContextManager[object]] = nullcontext
        """Context entered while programs are timed, not while they are built; can pause other work."""
        self._spec = host_spec("host", target, self.config)
        self._measuring = threading.Lock()
        self._folder = ScratchFolder()
        # By content key of the module or reference, least recently used first.
        self._kept: OrderedDict[str, WorkerProcess] = OrderedDict()
        self._expected: OrderedDict[str, Path | None] = OrderedDict()  # None for a reference that failed
        self._losses, self._run_losses = Losses(), Losses()
        self._workers = [self._start() for _ in range(workers or available_cores())]

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()
        self._workers = []
        self._folder.cleanup()

    @property
    def worker_pids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers]

    @property
    def stage_pids(self) -> dict[str, list[int]]:
        return {"measuring": existing_pids(self._workers)}

    def hardware(self) -> Hardware:
        """Description of this machine's CPU as used by programs of the target."""
        return target_hardware(self.target)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Waits for the current measurement, and blocks others during the block, which does its own
        timing."""
        with self._measuring, self.timing_context():
            yield

    def measure(self, jobs: Sequence[MeasureJob]) -> list[MeasureOutcome]:
        """Measure jobs; returns one outcome for each, in order.

        A latency measured earlier in a call also counts as the best one that cuts slow programs short. Raises
        DevicesLostError, with the outcomes so far, if a worker cannot be started or all are killed.
        """
        outcomes: dict[int, MeasureOutcome] = {}
        try:
            self._measure(jobs, outcomes)
        except WorkerStartError as error:
            raise DevicesLostError(str(error), [outcomes.get(n) for n in range(len(jobs))]) from error
        return [outcomes[number] for number in range(len(jobs))]

    def _measure(self, jobs: Sequence[MeasureJob], outcomes: dict[int, MeasureOutcome]) -> None:
        """Adds the outcome of each job; raises WorkerStartError."""
        best_s: defaultdict[str, float] = defaultdict(lambda: float("inf"))
        for job in jobs:
            best_s[job.task] = min(best_s[job.task], job.best_latency_s)
        kills: Counter[int] = Counter()
        with self._measuring:
            while len(outcomes) < len(jobs):
                pending = {number: job for number, job in enumerate(jobs) if number not in outcomes}
                self._make_references(pending)
                built = self._build(pending, outcomes)
                with self.timing_context():
                    # Programs whose worker was killed come last: they may kill the next one, too.
                    for number, (worker, build_s) in sorted(built.items(), key=lambda one: kills[one[0]]):
                        if worker not in self._workers:
                            continue  # its worker was just replaced: build again in the next round
                        job = jobs[number]
                        try:
                            outcome = self._run(worker, number, job, best_s[job.task], build_s)
                        except WorkerLostError as gone:
                            kills[number] += bool(gone.killed)
                            if gone.killed and kills[number] <= KILLS_ALLOWED:
                                continue  # build it again in the next round
                            outcome = MeasureOutcome(failure=gone.kind, message=str(gone), build_s=build_s)
                        outcomes[number] = outcome
                        best_s[job.task] = min(best_s[job.task], outcome.latency_s)

    def object_file(self, job: MeasureJob) -> bytes | None:
        """Object file of a measured job with `keep_built`; None if its library is not kept any more."""
        path = self._folder.path / f"{job.key}.o"
        with self._measuring:
            worker = self._kept.get(job.key)
            if worker is None or worker not in self._workers:
                return None
            worker.send({"op": "write_object", "key": job.key, "path": str(path)})
            try:
                failed = worker.receive(self.config.build_timeout_s, FailureKind.BUILD_TIMEOUT)
            except WorkerLostError:
                self._replace(self._workers.index(worker))
                return None
        return None if failed else path.read_bytes()

    def _make_references(self, jobs: Mapping[int, MeasureJob]) -> None:
        """Run missing references; one that failed is not run again, and its jobs are measured unchecked."""
        wanted = {job.reference_key: job.reference for job in jobs.values() if job.reference is not None}
        requests = {
            key: _Request(
                {"op": "reference", "module": module, "path": str(self._expected_path(key))},
                REFERENCE_TIMEOUT_S,
            )
            for key, module in wanted.items()
            if key not in self._expected
        }
        for key, answer in self._ask_all(requests).items():
            self._expected[key] = None if answer.problem else self._expected_path(key)
            if answer.problem:
                warn_unchecked(answer.problem)
        for key in wanted:
            self._expected.move_to_end(key)
        while len(self._expected) > max(REFERENCES_KEPT, len(wanted)):
            forgotten, _ = self._expected.popitem(last=False)
            self._expected_path(forgotten).unlink(missing_ok=True)

    def _expected_path(self, key: str) -> Path:
        return self._folder.path / f"{key}.npz"

    def _build(
        self, jobs: Mapping[int, MeasureJob], outcomes: dict[int, MeasureOutcome]
    ) -> dict[int, tuple[WorkerProcess, float]]:
        """Build jobs without a kept library; returns worker and build time by job, and records failures."""
        self._kept = OrderedDict((key, at) for key, at in self._kept.items() if at in self._workers)
        kept = {n: self._kept[job.key] for n, job in jobs.items() if job.keep_built and job.key in self._kept}
        requests = {
            number: _Request(
                {
                    "op": "build",
                    "key": _name(number, job),
                    "module": job.module,
                    "checked": job.reference is not None,
                },
                self.config.build_timeout_s,
            )
            for number, job in jobs.items()
            if number not in kept
        }
        built = {number: (worker, 0.0) for number, worker in kept.items()}
        for number, answer in self._ask_all(requests).items():
            if answer.gone is not None:
                message = str(answer.gone)
                if answer.gone.kind is FailureKind.BUILD_TIMEOUT:
                    message = f"not built within {self.config.build_timeout_s:g} s"
                outcomes[number] = MeasureOutcome(failure=answer.gone.kind, message=message)
            elif answer.problem is not None:
                outcomes[number] = MeasureOutcome(failure=FailureKind.BUILD_ERROR, message=answer.problem)
            else:
                built[number] = answer.worker, answer.reply["build_s"]
        return dict(sorted(built.items()))

    def _ask_all(self, requests: Mapping[Any, _Request]) -> dict[Any, _Answer]:
        """Distribute requests over the workers and collect one answer each; replaces lost workers.

        A request whose worker was killed is repeated, while the other workers are idle. Raises
        WorkerStartError. It then replaces the busy workers, whose replies would answer later requests.
        """
        queue, again = deque(requests), deque[Any]()
        in_flight: dict[int, tuple[Any, float]] = {}  # slot -> key of the request, deadline
        answers: dict[Any, _Answer] = {}
        kills: Counter[Any] = Counter()
        try:
            while queue or again or in_flight:
                if not queue and not in_flight:
                    queue.append(again.popleft())
                self._hand_out(queue, requests, in_flight)
                for slot, key, answer in self._received(in_flight):
                    del in_flight[slot]
                    if answer.gone is not None:
                        self._replace(slot)
                        self._losses.killed(answer.gone, key)
                        if answer.gone.killed and kills[key] < KILLS_ALLOWED:
                            kills[key] += 1
                            again.append(key)
                            continue
                    answers[key] = answer
        except WorkerStartError:
            for busy in in_flight:
                self._replace(busy)
            raise
        return answers

    def _hand_out(
        self, queue: deque[Any], requests: Mapping[Any, _Request], in_flight: dict[int, tuple[Any, float]]
    ) -> None:
        """Send the next requests of a queue to idle workers; raises WorkerStartError."""
        for slot in range(len(self._workers)):
            if queue and slot not in in_flight:
                key = queue.popleft()
                self._ready_worker(slot).send(requests[key].message)
                in_flight[slot] = key, time.monotonic() + requests[key].timeout_s

    def _received(self, in_flight: Mapping[int, tuple[Any, float]]) -> Iterator[tuple[int, Any, _Answer]]:
        """Wait for answers or deadlines; yield slot, key and answer of each request that has ended."""
        next_deadline = min(deadline for _, deadline in in_flight.values())
        wait(
            [self._workers[slot].connection for slot in in_flight],
            timeout=max(0.0, next_deadline - time.monotonic()),
        )
        for slot, (key, deadline) in list(in_flight.items()):
            worker = self._workers[slot]
            if not worker.connection.poll() and time.monotonic() < deadline:
                continue
            try:
                answer = _Answer(worker, worker.receive(0.0, FailureKind.BUILD_TIMEOUT))
                self._losses.answered()
            except WorkerLostError as gone:
                answer = _Answer(worker, {}, gone)
            yield slot, key, answer

    def _run(
        self, worker: WorkerProcess, number: int, job: MeasureJob, best_s: float, build_s: float
    ) -> MeasureOutcome:
        """Time a built job; raises WorkerLostError after replacing its worker, and WorkersKilledError."""
        key = _name(number, job)
        expected = self._expected[job.reference_key] if job.reference is not None else None
        worker.send(
            {
                "op": "run",
                "key": key,
                "best_latency_s": best_s,
                "expected": str(expected) if expected else None,
                "keep": job.keep_built,
                "count": job.count_bytes,
            }
        )
        try:
            reply = worker.receive(self.config.run_timeout_s, FailureKind.RUN_TIMEOUT)
        except WorkerLostError as gone:
            self._replace(self._workers.index(worker))
            self._run_losses.killed(gone, number)
            raise
        self._run_losses.answered()
        if job.keep_built:
            self._kept[key] = worker
            self._kept.move_to_end(key)
            if len(self._kept) > LIBRARIES_KEPT:
                self._kept.popitem(last=False)
        unchecked = job.reference is not None and expected is None
        return replace(outcome_from_reply(reply, build_s), unchecked=unchecked)

    def _ready_worker(self, slot: int) -> WorkerProcess:
        """Worker of a slot, started; a worker that fails to start is tried again."""
        if self._workers[slot].ready and not self._workers[slot].alive:
            self._replace(slot)  # killed while idle, so no candidate is to blame
        for attempts_left in reversed(range(self._spec.start_attempts)):
            worker = self._workers[slot]
            try:
                worker.wait_ready()
                if not worker.alive:  # killed since it said that it is ready
                    message = worker.start_failure_message(str(worker.lost()), killed=True)
                    raise WorkerStartError(message)
                break
            except WorkerStartError:
                if not attempts_left:
                    raise
                self._replace(slot)
        return self._workers[slot]

    def _replace(self, slot: int) -> None:
        self._workers[slot].kill()
        self._workers[slot] = self._start()

    def _start(self) -> WorkerProcess:
        return WorkerProcess(self._spec)


def _name(number: int, job: MeasureJob) -> str:
    """Name of a job's module within a worker: its content key if it is kept, else the job's number."""
    return job.key if job.keep_built else str(number)
