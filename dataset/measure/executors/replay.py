"""Replay: latencies from a pool of measured programs replace a device.

The command offers it as `executor=replay`, which compares searches in minutes, so it is part of the product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...hardware import Hardware
from ...records.program_pool import PoolError, ProgramPool
from ...records.schema import FailureKind
from ..config import ExecutorConfig
from ..job import MeasureJob, MeasureOutcome


class ReplayExecutor:
    """Executor that answers immediately with the measurements of a pool.

    A search under replay draws its candidates from the pool (`search/strategy=pool`). A candidate from
    another source is an error, since the pool has no correct latency for it. A task without a schedule gets
    the longest latency of its programs, because a pool does not contain its unscheduled program. Outcomes are
    marked as simulated.
    """

    devices = 1
    batches_overlap = False
    stage_pids: Mapping[str, Sequence[int]] = {}

    def __init__(self, pool: ProgramPool) -> None:
        self._pool = pool
        self._built: set[tuple[str, str]] = set()
        self._elapsed_s = 0.0

    def hardware(self) -> Hardware:
        """The device of the pool under a different name, so that its schedules are kept apart."""
        return replace(self._pool.hardware, name=f"replay of {self._pool.hardware.name}")

    def elapsed_s(self) -> float:
        """Seconds of building and running when the pool was measured; each program counts as built once."""
        return self._elapsed_s

    @property
    def measured(self) -> int:
        """Number of different programs requested."""
        return len(self._built)

    def measure(self, jobs: Sequence[MeasureJob]) -> list[MeasureOutcome]:
        """Outcomes of the pool, in order; raises PoolError for a candidate outside the pool."""
        return [self._outcome(job) if job.trace else self._untuned(job.task) for job in jobs]

    def close(self) -> None:
        """Does nothing."""

    def __enter__(self) -> ReplayExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _outcome(self, job: MeasureJob) -> MeasureOutcome:
        record = self._pool.programs(job.task).get(job.trace)
        if record is None:
            raise PoolError(
                f"executor=replay: the pool {self._pool.folder} has no such program of task {job.task}; "
                "search among its programs, with search/strategy=pool and the same pool"
            )
        again = (job.task, job.trace) in self._built
        self._built.add((job.task, job.trace))
        build_s = 0.0 if again else record.build_s
        self._elapsed_s += build_s + record.run_s
        return MeasureOutcome(
            run_secs=record.run_secs,
            failure=record.failure,
            message=record.failure_message,
            cut_short=record.cut_short,
            build_s=build_s,
            run_s=record.run_s,
            simulated=True,
        )

    def _untuned(self, workload: str) -> MeasureOutcome:
        slowest_s = self._pool.slowest_s(workload)
        if slowest_s is None:
            return MeasureOutcome(
                failure=FailureKind.RUN_ERROR,
                message=f"no program of task {workload or 'without a name'} ran in {self._pool.folder}",
                simulated=True,
            )
        return MeasureOutcome((slowest_s,), simulated=True)


def make_replay_executor(config: ExecutorConfig) -> ReplayExecutor:
    """Creates the executor of `executor.pool`; raises the errors of ProgramPool."""
    return ReplayExecutor(ProgramPool(config.pool, config.hardware))
