"""`foretune-generate`: sample tasks, sample programs of each, measure them, store the records.

The run is a loop over tasks; each round of a task is one shard. Stopped in whatever way, the same command
goes on where it was: tasks with enough records are skipped, others continue with what they have learned.
"""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from threading import Event, Lock

import hydra
import tvm
from omegaconf import DictConfig
from rich.console import Console
from tvm.target import Target

from ..configuration import from_hydra
from ..errors import INTERRUPTED, exits_cleanly
from .campaign import TaskCampaign
from .generate_config import GenerateConfig
from .generate_progress import GenerateProgress
from .generate_summary import GenerateSummary, print_summary
from .lanes import work_in_lanes
from .measure import make_executor
from .program_sampling import DatabaseTasks, make_scorer
from .records import Record, TaskRow
from .self_check import check_measurement
from .store import RecordStore
from .task import Task
from .task_sampling import sample_tasks
from .testbed import Testbed
from .tvm_compat import NoDesignSpaceError, parse_target, target_to_json


def run(config: GenerateConfig, console: Console | None = None) -> GenerateSummary:
    """Generates the dataset; safe to interrupt and to call again. Raises UserError."""
    console = console or Console()
    started = time.monotonic()
    deadline = started + 60 * config.minutes if config.minutes else math.inf
    target = parse_target(config.target)
    database = _check_program_sampling(config)
    store = RecordStore(config.dataset)
    with store.writing(), make_executor(config.executor, target, config.measure, config.workers) as executor:
        if config.self_check:
            check_measurement(executor, target)
        testbed = Testbed(executor, target, config.noise)
        for bad in store.set_aside_bad_shards():
            console.print(f"[yellow]set aside {bad.path.name}: {bad.reason}; what it held is measured again")
        store.put_hardware(testbed.hardware)
        if database:
            tasks = database.tasks[: config.tasks]
        else:
            tasks = sample_tasks(n=config.tasks, seed=config.seed, **config.task_sampling)
        known = {row.workload_hash for row in store.tasks()}
        store.append_tasks([_task_row(task) for task in tasks if task.workload_hash not in known])
        progress = GenerateProgress(console, testbed.clock, total=len(tasks) * config.records_per_task)
        traces = database.traces if database else {}
        generation = Generation(config, store, testbed, tasks, progress, deadline, traces)
        summary = generation.summary
        lanes = list(range(executor.devices)) * _lanes_per_device(config, target)
        try:
            with progress:
                work_in_lanes(tasks, lanes, generation.run_task)
        except KeyboardInterrupt:
            summary.interrupted = True
        else:
            store.compact()
    summary.repeated = testbed.repeated
    summary.stage_s = testbed.clock.seconds
    summary.seconds = time.monotonic() - started
    print_summary(summary, config.dataset, console)
    return summary


class Generation:
    """What the campaigns of a run share: the records of before, the store, the counts."""

    def __init__(
        self,
        config: GenerateConfig,
        store: RecordStore,
        testbed: Testbed,
        tasks: Sequence[Task],
        progress: GenerateProgress,
        deadline: float,
        traces: Mapping[str, Sequence[str]],
    ) -> None:
        """`deadline` is by `time.monotonic`; `traces` are those of a database by workload hash."""
        self._config = config
        self._store = store
        self._testbed = testbed
        self._progress = progress
        self._deadline = deadline
        self._traces = traces
        self._lock = Lock()
        records = store.records()
        self.summary = GenerateSummary(
            total_records=len(records), total_valid=sum(record.failure is None for record in records)
        )
        self._earlier = _records_by_task(records, tasks, testbed)

    def run_task(self, task: Task, device: int, stop: Event) -> None:
        """Measures one task on one device, until it has its records, the time is up or `stop` is set."""
        if self._is_time_up():
            return
        config, summary = self._config, self.summary
        earlier = self._earlier.pop(task.workload_hash, [])
        campaign = TaskCampaign(
            task, self._testbed, config, device=device, traces=self._traces.get(task.workload_hash, ())
        )
        self._progress.start_task(task.name)
        self._progress.advance(len(earlier))
        measured = 0
        try:
            for records in campaign.rounds(earlier, self._deadline):
                self._keep(records)
                measured += len(records)
                if stop.is_set():
                    return
        except NoDesignSpaceError:
            with self._lock:
                summary.tasks_without_space += 1
        else:
            with self._lock:
                summary.tasks_done += not self._is_time_up()
        finally:
            with self._lock:
                summary.refused += campaign.refused
        self._progress.advance(config.records_per_task - len(earlier) - measured)

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


def _check_program_sampling(config: GenerateConfig) -> DatabaseTasks | None:
    """Fails on what cannot be before anything is measured; returns the database, where one is replayed."""
    sampling = config.program_sampling
    if sampling.explores:
        make_scorer(sampling.scorer, warm_up=config.per_round)
    return DatabaseTasks(sampling.database) if sampling.sampler == "database" and sampling.database else None


def _lanes_per_device(config: GenerateConfig, target: Target) -> int:
    """Two where the search for one task may go on while another is timed: not on the cores that are timed."""
    return 2 if target.kind.name != "llvm" or config.executor.kind == "rpc" else 1


def _records_by_task(
    records: Sequence[Record], tasks: Sequence[Task], testbed: Testbed
) -> dict[str, list[Record]]:
    """Records of the tasks on this device and target, by workload hash."""
    wanted = {task.workload_hash for task in tasks}
    place = (testbed.hardware.hardware_id, target_to_json(testbed.target))
    found: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.workload_hash in wanted and (record.hardware_id, record.target) == place:
            found[record.workload_hash].append(record)
    return dict(found)


def _task_row(task: Task) -> TaskRow:
    return TaskRow(
        workload_hash=task.workload_hash,
        name=task.name,
        operator=task.operator,
        settings=json.dumps(dict(task.settings), sort_keys=True),
        source=task.source,
        flops=task.flops,
        tir=tvm.ir.save_json(task.mod),
    )


@hydra.main(config_path="pkg://foretune.conf", config_name="generate", version_base="1.3")
@exits_cleanly()
def main(cfg: DictConfig) -> None:
    """Entry of `foretune-generate`."""
    if run(from_hydra(cfg, GenerateConfig)).interrupted:
        raise SystemExit(INTERRUPTED)


if __name__ == "__main__":
    main()
