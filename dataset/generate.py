"""`foretune generate`: sample tasks, sample programs of each, measure them and store the records.

A run loops over tasks, and each round of a task writes one shard. The same command continues a run that was
stopped in any way: it skips tasks with enough records and continues others with what their sampler learned.
"""

from __future__ import annotations

import math
import time

from omegaconf import DictConfig
from rich.console import Console
from tvm.target import Target

from ..configuration import from_hydra
from ..errors import INTERRUPTED
from .datasheet.write import write_datasheet
from .generation.config import GenerateConfig
from .generation.device_workers import run_device_workers
from .generation.earlier_records import EarlierRecords
from .generation.generation import Generation
from .generation.network_tasks import tasks_of_networks
from .generation.progress import GenerateProgress
from .generation.self_check import check_measurement
from .generation.summary import GenerateSummary, print_summary
from .generation.testbed import Testbed
from .measure import make_executor
from .measure.isolation import realtime_priority_allowed
from .measure.memory_counters import uncounted_reason
from .network_weights import NetworkWeights, merged_networks, read_networks, write_networks
from .program_sampling import DatabaseTasks, make_scorer
from .store import RecordStore
from .stored_tasks import stored_rows, stored_task, task_row
from .task import Task
from .task_sampling import sample_tasks
from .tvm_compat import available_cores, parse_target, target_to_json

_ROUNDS_AHEAD = 3
"""Programs that wait for each compiler of a GPU's programs, at most."""


def run(config: GenerateConfig, console: Console | None = None) -> GenerateSummary:
    """Generate the dataset; may be interrupted and called again. Raises UserError."""
    console = console or Console()
    started = time.monotonic()
    deadline = started + 60 * config.minutes if config.minutes else math.inf
    target = parse_target(config.target)
    database = _check_program_sampling(config, console)
    store = RecordStore(config.dataset)
    networks: NetworkWeights = {}
    of_networks: list[Task] = []
    if config.networks:
        with console.status("extracting the tasks of the networks"):
            of_networks, networks = tasks_of_networks(config.networks, target, config.lowering)
    with store.writing(), make_executor(config.executor, target, config.measure, config.workers) as executor:
        if config.self_check:
            with console.status("checking the measurement of a small task"):
                check_measurement(executor, target)
        testbed = Testbed(executor, target, config.noise)
        for bad in store.set_aside_bad_shards():
            console.print(f"[yellow]set aside {bad.path.name}: {bad.reason}; its records are measured again")
        store.put_hardware(testbed.hardware)
        with console.status("sampling tasks"):
            tasks = of_networks or _tasks(config, target, database)
        if networks:
            write_networks(store, merged_networks([read_networks(store.folder), networks], store.folder))
        known = {row.workload_hash for row in store.tasks()}
        store.append_tasks([task_row(task) for task in tasks if task.workload_hash not in known])
        earlier = EarlierRecords(
            store,
            [task.workload_hash for task in tasks],
            testbed.hardware.hardware_id,
            target_to_json(target),
            enough=config.records_per_task,
        )
        progress = GenerateProgress(console, testbed.clock, total=len(tasks) * config.records_per_task)
        traces = database.traces if database else {}
        generation = Generation(config, store, testbed, earlier, progress, deadline, traces)
        summary = generation.summary
        devices = list(range(executor.devices)) * _workers_per_device(config, target, executor.devices)
        try:
            with progress:
                run_device_workers(tasks, devices, generation.run_task, progress.interrupted)
        except KeyboardInterrupt:
            summary.interrupted = True
        else:
            store.compact()
            if config.datasheet and summary.total_records:
                with console.status("writing the datasheet"):
                    datasheet = write_datasheet(store)
                console.print(f"wrote {datasheet}", highlight=False, soft_wrap=True)
    if config.executor.kind == "local" and target.kind.name == "llvm":
        summary.uncounted_reason = uncounted_reason()
    summary.repeated = testbed.repeated
    summary.stage_s = testbed.clock.seconds
    summary.seconds = time.monotonic() - started
    print_summary(summary, config.dataset, console)
    return summary


def _check_program_sampling(config: GenerateConfig, console: Console) -> DatabaseTasks | None:
    """Check the settings before anything is measured; returns the database of the database sampler."""
    sampling = config.program_sampling
    if sampling.uses_scorer:
        make_scorer(sampling.scorer, config.per_round, sampling.checkpoint_scorer)
    if sampling.sampler != "database" or sampling.database is None:
        return None
    with console.status(f"reading the programs of {sampling.database}"):
        return DatabaseTasks(sampling.database)


def _tasks(config: GenerateConfig, target: Target, database: DatabaseTasks | None) -> list[Task]:
    if database is not None:
        return database.tasks[: config.tasks]
    if config.tasks_from is not None:
        return [stored_task(row) for row in stored_rows(config.tasks_from)[: config.tasks]]
    given = {name: value for name, value in config.task_sampling.items() if value is not None}
    if target.kind.name != "llvm":
        given.setdefault("prepack", 0.0)
    return sample_tasks(n=config.tasks, seed=config.seed, **given)


def _workers_per_device(config: GenerateConfig, target: Target, devices: int) -> int:
    """Number of tasks in progress per device: 2 if sampling for one may overlap with measuring another.

    On the CPU that is timed, they may overlap only if the timing has real-time priority. A GPU's programs
    compile for seconds, some ten times as long as others, so that small rounds leave most compilers idle.
    """
    if target.kind.name == "cuda" and config.executor.kind == "local":
        compilers = config.workers or available_cores()
        return 1 + math.ceil(_ROUNDS_AHEAD * compilers / (devices * config.per_round))
    if target.kind.name != "llvm" or config.executor.kind == "rpc":
        return 2
    return 2 if config.executor.kind == "local" and realtime_priority_allowed() else 1


def main(config: DictConfig) -> int:
    """Entry point of `foretune generate`; returns the exit status."""
    return INTERRUPTED if run(from_hydra(config, GenerateConfig)).interrupted else 0
