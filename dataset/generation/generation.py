"""Generation of the records of all tasks of a run, with storage and counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from threading import Event, Lock

from ...compiler.task import Task
from ...compiler.tvm_compat import NoDesignSpaceError
from ..measure.machine_errors import BatchEndedError
from ..records.schema import Record
from ..records.store import RecordStore
from .config import GenerateConfig
from .earlier_records import EarlierRecords
from .progress import GenerateProgress
from .samplers import Samplers, SamplingFailedError, SamplingStoppedError
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
        samplers: Samplers,
        earlier: EarlierRecords,
        progress: GenerateProgress,
        deadline: float,
        traces: Mapping[str, Sequence[str]],
    ) -> None:
        """`deadline` is a time of `time.monotonic`; `traces` come from a database, by workload hash."""
        self.summary = GenerateSummary(total_records=earlier.total, total_valid=earlier.total_valid)
        self._config = config
        self._store = store
        self._testbed = testbed
        self._samplers = samplers
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
        traces = self._traces.get(task.workload_hash, ())
        generator = TaskGenerator(
            task, self._testbed, self._samplers, self._config, device=device, traces=traces
        )
        self._progress.start_task(task.name)
        measured = 0
        try:
            for records in generator.rounds(earlier, self._deadline):
                self._keep(records)
                measured += len(records)
                if stop.is_set():
                    return
        except SamplingStoppedError:
            self._is_time_up()
        except BatchEndedError as ended:
            if ended.reason is not None:
                raise ended.reason from ended
            self._is_time_up()
        except (NoDesignSpaceError, SamplingFailedError) as error:
            self._give_up(task, error)
            self._progress.advance(wanted - measured)
        else:
            if not measured and not earlier:
                self._note(lambda summary: summary.without_program.append(task.name))
            self._end_task(wanted - measured)
        finally:
            self._note(lambda summary: summary.rejected.update(generator.rejected))
            self._note(lambda summary: summary.dropped.update(generator.dropped))

    def _give_up(self, task: Task, error: Exception) -> None:
        if isinstance(error, NoDesignSpaceError):
            self._note(lambda summary: summary.without_space.append(task.name))
        else:
            self._note(lambda summary: summary.given_up.update({task.name: str(error)}))

    def _note(self, change: Callable[[GenerateSummary], None]) -> None:
        with self._lock:
            change(self.summary)

    def _end_task(self, records_left: int) -> None:
        if self._is_time_up():
            return
        with self._lock:
            self.summary.tasks_done += 1
        self._progress.advance(records_left)

    def _keep(self, records: list[Record]) -> None:
        if not records:
            return
        with self._lock:
            with self._testbed.clock.stage("storing"):
                self._store.append_records(records)
            self.summary.count(records)
            self._progress.measured(len(records))

    def _is_time_up(self) -> bool:
        if time.monotonic() > self._deadline:
            self.summary.out_of_time = True
        return self.summary.out_of_time
