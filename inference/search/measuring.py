"""Measuring threads: measure rounds in parallel with the searches, and wake the tuner when they finish."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Condition
from types import TracebackType

import tvm

from ...compiler.codegen.objects import ObjectFiles
from ...compiler.task import Task
from ...dataset.measure import Executor, KeepsObjects, MeasureJob, MeasureOutcome
from ...dataset.measure.machine_errors import DevicesLostError
from .candidate import MeasuredCandidate
from .loop import CandidateBatch
from .task_search import TaskSearch

UNTUNED_BEST_S = 5e-4
"""Assumed best latency in seconds of unscheduled tasks. A task slower than `measure.slow_factor` times this
runs once."""

MAY_WIN_OPERATIONS = 1e6
"""Floating-point operations above which a task is slower without a schedule.

In the 102 such tasks of four networks on a Zen 3 with two cores, plain loops take at least 2.3 times as long
as the schedule. They won only in tasks of at most 8e4 operations, in which starting threads takes longest.
"""

_UNTUNED_BATCH = 4
"""Number of unscheduled tasks to build and run between checks for an interrupt."""


def may_win_untuned(task: Task) -> bool:
    """Whether a task may be faster without a schedule; see MAY_WIN_OPERATIONS."""
    return task.flops <= MAY_WIN_OPERATIONS


class BatchGate:
    """Gate that batches pass, unless it is closed for a block of other work.

    A lock would not do: a thread that measures batch after batch takes it again before others get it.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._inside = 0
        self._closed = False

    @contextmanager
    def passed(self) -> Iterator[None]:
        """Waits until the gate is open, and counts the block as a batch."""
        with self._changed:
            self._changed.wait_for(lambda: not self._closed)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Lets no batch begin, and runs the block after the batches inside have ended."""
        try:
            with self._changed:
                self._closed = True
                self._changed.wait_for(lambda: not self._inside)
            yield
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()


class MeasuringThreads:
    """Measures rounds and unscheduled tasks in threads, one per device of the executor."""

    def __init__(
        self,
        executor: Executor,
        may_measure: Callable[[TaskSearch], bool] = lambda search: True,
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
        objects: ObjectFiles | None = None,
    ) -> None:
        """Prepares the threads.

        `may_measure` returns whether another batch of a task's round may start. `around` is active during
        every measurement. `objects` takes the object files of the fastest program of each round and of
        unscheduled tasks.
        """
        self._executor = executor
        self._may_measure = may_measure
        self._around = around
        self._objects = objects
        self._linked = executor if objects is not None and isinstance(executor, KeepsObjects) else None
        self._threads = ThreadPoolExecutor(max(1, executor.devices))
        self._rounds: dict[Future[list[MeasuredCandidate]], TaskSearch] = {}
        self._untuned: Future[list[float | None]] | None = None
        self._stopped = False
        self._gate = BatchGate()
        self.woken: Connection
        """Connection that becomes readable when a measurement finishes."""
        self.woken, self._wake_up = Pipe(duplex=False)

    def __enter__(self) -> MeasuringThreads:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped = True  # the current batches are the last
        self._threads.shutdown(wait=True)
        self.woken.close()
        self._wake_up.close()

    @property
    def rounds_under_way(self) -> int:
        """Number of rounds that are measured or queued."""
        return len(self._rounds)

    @property
    def untuned_under_way(self) -> bool:
        """Whether unscheduled tasks are being measured."""
        return self._untuned is not None

    @property
    def is_busy(self) -> bool:
        """Whether any measurement is running or queued."""
        return bool(self._rounds) or self.untuned_under_way

    def paused(self) -> AbstractContextManager[None]:
        """Context manager in which nothing is measured. It waits for the current batches first."""
        return self._gate.closed()

    def start_round(self, search: TaskSearch) -> None:
        """Measures the round that the task's loop has begun."""
        future = self._threads.submit(self._measure_round, search)
        self._rounds[future] = search
        future.add_done_callback(self._wake)

    def start_untuned(
        self, tasks: Sequence[Task], due: int = 0, in_time: Callable[[], bool] = lambda: True
    ) -> None:
        """Measures tasks without a schedule; the first `due` tasks are always measured.

        `in_time` returns whether another batch of the other tasks may start.
        """
        self._untuned = self._threads.submit(self._measure_untuned, tasks, due, in_time)
        self._untuned.add_done_callback(self._wake)

    def take_untuned(self) -> list[float | None] | None:
        """Latencies in seconds of the unscheduled tasks, once after their measurement; None otherwise.

        A task without a measurement, for lack of time, has the value None.
        """
        self._quiet()
        if self._untuned is None or not self._untuned.done():
            return None
        done, self._untuned = self._untuned, None
        return done.result()

    def take_rounds(self) -> list[tuple[TaskSearch, list[MeasuredCandidate]]]:
        """Finished rounds with their measurements. Each round is returned once."""
        self._quiet()
        done = [future for future in self._rounds if future.done()]
        return [(self._rounds.pop(future), future.result()) for future in done]

    def _wake(self, _: object) -> None:
        self._wake_up.send_bytes(b".")

    def _quiet(self) -> None:
        while self.woken.poll():
            self.woken.recv_bytes()

    def _measure_round(self, search: TaskSearch) -> list[MeasuredCandidate]:
        if self._stopped:
            return []
        start = time.monotonic()
        try:
            with self._around():
                self._measure_batches(search)
            self._keep_object(search)
            return search.loop.measured_in_round
        finally:
            search.effort.measure_s += time.monotonic() - start

    def _measure_batches(self, search: TaskSearch) -> None:
        loop, workload, keep = search.loop, search.task.workload_hash, self._linked is not None
        while not self._stopped and self._may_measure(search) and (batch := loop.next_batch()) is not None:
            try:
                loop.learn(batch, self._measured(jobs(batch, loop.best_s, workload, keep)))
            except DevicesLostError as lost:  # which has the outcomes so far
                measured = {
                    p: o for p, o in zip(batch.candidates, lost.outcomes, strict=True) if o is not None
                }
                loop.learn(replace(batch, candidates=tuple(measured)), list(measured.values()))
                raise

    def _keep_object(self, search: TaskSearch) -> None:
        """Keeps the object file of the task's fastest program if it comes from this round."""
        for one in search.loop.measured_in_round:
            if one.latency_s == search.best_s < math.inf:
                self._keep(MeasureJob(one.candidate.module, keep_built=True))

    def _keep(self, job: MeasureJob) -> None:
        """Keeps the object file of a program that was measured."""
        if self._objects is None or self._linked is None:
            return
        if (data := self._linked.object_file(job)) is not None:
            self._objects.keep(data)

    def _measured(self, jobs: Sequence[MeasureJob]) -> list[MeasureOutcome]:
        with self._gate.passed():
            return self._executor.measure(jobs)

    def _measure_untuned(
        self, tasks: Sequence[Task], due: int, in_time: Callable[[], bool]
    ) -> list[float | None]:
        latencies_s: list[float | None] = []
        for start in range(0, len(tasks), _UNTUNED_BATCH):
            if self._stopped or (start >= due and not in_time()):
                break
            jobs = [
                MeasureJob(
                    tvm.ir.save_json(task.mod),
                    UNTUNED_BEST_S,
                    keep_built=self._linked is not None,
                    task=task.workload_hash,
                )
                for task in tasks[start : start + _UNTUNED_BATCH]
            ]
            with self._around():
                latencies_s += [outcome.latency_s for outcome in self._measured(jobs)]
                for job in jobs:
                    self._keep(job)
        return latencies_s + [None] * (len(tasks) - len(latencies_s))


def jobs(
    batch: CandidateBatch, best_s: float, workload: str = "", keep_built: bool = False
) -> list[MeasureJob]:
    """Jobs of a batch of the task `workload`. Programs far slower than the best are cut short.

    With `keep_built`, the executor keeps the libraries also if the batch does not ask for it.
    """
    kept = keep_built or batch.keep_built
    return [
        MeasureJob(p.module, best_s, keep_built=kept, task=workload, trace=p.trace) for p in batch.candidates
    ]
