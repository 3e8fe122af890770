"""Generation of the records of all tasks of a run, with storage and counts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from threading import Event, Lock

from ..records import Record
from ..store import RecordStore
from ..task import Task
from ..tvm_compat import NoDesignSpaceError
from .config import GenerateConfig
from .earlier_records import EarlierRecords
from .progress import GenerateProgress
from .summary import GenerateSummary
from .task_generator import TaskGenerator
from .testbed import Testbed


class Generation:
    """Generator that runs one task after another; several threads, each with a device, may share it."""

    def __init__(
        self,
        config: GenerateConfig,
        store: RecordStore,
        testbed: Testbed,
        earlier: EarlierRecords,
        progress: GenerateProgress,
        deadline: float,
        traces: Mapping[str, Sequence[str]],
    ) -> None:
        """`deadline` is a time of `time.monotonic`; `traces` are those of a database, by workload hash."""
        self.summary = GenerateSummary(total_records=earlier.total, total_valid=earlier.total_valid)
        self._config = config
        self._store = store
        self._testbed = testbed
        self._earlier = earlier
        self._progress = progress
        self._deadline = deadline
        self._traces = traces
        self._lock = Lock()

    def run_task(self, task: Task, device: int, stop: Event) -> None:
        """Measure a task on a device until it has its records, the time is up or `stop` is set."""
        if self._is_time_up():
            return
        wanted = self._config.records_per_task
        if task.workload_hash in self._earlier.done:
            self._end_task(wanted)
            return
        earlier = self._earlier.take(task.workload_hash)
        generator = TaskGenerator(
            task, self._testbed, self._config, device=device, traces=self._traces.get(task.workload_hash, ())
        )
        self._progress.start_task(task.name)
        measured = 0
        try:
            for records in generator.rounds(earlier, self._deadline):
                self._keep(records)
                measured += len(records)
                if stop.is_set():
                    return
        except NoDesignSpaceError:
            with self._lock:
                self.summary.tasks_without_space += 1
            self._progress.advance(wanted)
        else:
            self._end_task(wanted - measured)
        finally:
            with self._lock:
                self.summary.rejected += generator.rejected

    def _end_task(self, records_left: int) -> None:
        if self._is_time_up():
            return
        with self._lock:
            self.summary.tasks_done += 1
        self._progress.advance(records_left)

    def _keep(self, records: list[Record]) -> None:
        with self._lock:
            with self._testbed.clock.stage("storing"):
                self._store.append_records(records)
            self.summary.count(records)
            self._progress.measured(len(records), in_all=self.summary.measured)

    def _is_time_up(self) -> bool:
        if time.monotonic() > self._deadline:
            self.summary.out_of_time = True
        return self.summary.out_of_time
