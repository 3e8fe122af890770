"""`foretune-generate`: sample tasks, sample programs of each, measure them, store the records.

The run is a loop over tasks; each round of a task is one shard. Stopped in whatever way, the same command
goes on where it was: tasks with enough records are skipped, others continue with what they have learned.
"""

from __future__ import annotations

import math
import time

import hydra
from omegaconf import DictConfig
from rich.console import Console
from tvm.target import Target

from ..configuration import from_hydra
from ..errors import INTERRUPTED, exits_cleanly
from .datasheet.write import write_datasheet
from .generation.config import GenerateConfig
from .generation.earlier_records import EarlierRecords
from .generation.generation import Generation
from .generation.lanes import work_in_lanes
from .generation.network_tasks import tasks_of_networks
from .generation.progress import GenerateProgress
from .generation.self_check import check_measurement
from .generation.summary import GenerateSummary, print_summary
from .generation.testbed import Testbed
from .measure import make_executor
from .measure.memory_counters import why_not_counted
from .measure.undisturbed import goes_ahead_of_others
from .network_weights import NetworkWeights, put_networks, read_networks, united
from .program_sampling import DatabaseTasks, make_scorer
from .store import RecordStore
from .stored_tasks import stored_rows, stored_task, task_row
from .task import Task
from .task_sampling import sample_tasks
from .tvm_compat import parse_target, target_to_json


def run(config: GenerateConfig, console: Console | None = None) -> GenerateSummary:
    """Generates the dataset; safe to interrupt and to call again. Raises UserError."""
    console = console or Console()
    started = time.monotonic()
    deadline = started + 60 * config.minutes if config.minutes else math.inf
    target = parse_target(config.target)
    database = _check_program_sampling(config, console)
    store = RecordStore(config.dataset)
    networks: NetworkWeights = {}
    of_networks: list[Task] = []
    if config.networks:
        with console.status("turning the networks into tasks"):
            of_networks, networks = tasks_of_networks(config.networks, target, config.lowering)
    with store.writing(), make_executor(config.executor, target, config.measure, config.workers) as executor:
        if config.self_check:
            with console.status("checking that a small task is measured as it should"):
                check_measurement(executor, target)
        testbed = Testbed(executor, target, config.noise)
        for bad in store.set_aside_bad_shards():
            console.print(f"[yellow]set aside {bad.path.name}: {bad.reason}; what it held is measured again")
        store.put_hardware(testbed.hardware)
        with console.status("sampling tasks"):
            tasks = of_networks or _tasks(config, target, database)
        if networks:
            put_networks(store, united([read_networks(store.folder), networks], store.folder))
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
        lanes = list(range(executor.devices)) * _lanes_per_device(config, target)
        try:
            with progress:
                work_in_lanes(tasks, lanes, generation.run_task, progress.interrupted)
        except KeyboardInterrupt:
            summary.interrupted = True
        else:
            store.compact()
            if config.datasheet and summary.total_records:
                with console.status("writing the datasheet"):
                    datasheet = write_datasheet(store)
                console.print(f"wrote {datasheet}", highlight=False, soft_wrap=True)
    if config.executor.kind == "local" and target.kind.name == "llvm":
        summary.not_counted_because = why_not_counted()
    summary.repeated = testbed.repeated
    summary.stage_s = testbed.clock.seconds
    summary.seconds = time.monotonic() - started
    print_summary(summary, config.dataset, console)
    return summary


def _check_program_sampling(config: GenerateConfig, console: Console) -> DatabaseTasks | None:
    """Fails on what cannot be before anything is measured; returns the database, where one is replayed."""
    sampling = config.program_sampling
    if sampling.explores:
        make_scorer(sampling.scorer, warm_up=config.per_round)
    if sampling.sampler != "database" or sampling.database is None:
        return None
    with console.status(f"reading the programs of {sampling.database}"):  # seconds a hundred of them
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


def _lanes_per_device(config: GenerateConfig, target: Target) -> int:
    """Two where the search for one task may go on while another is measured.

    On the cores that are timed it may only where a timing goes ahead of it.
    """
    if target.kind.name != "llvm" or config.executor.kind == "rpc":
        return 2
    return 2 if config.executor.kind == "local" and goes_ahead_of_others() else 1


@hydra.main(config_path="pkg://foretune.conf", config_name="generate", version_base="1.3")
@exits_cleanly()
def main(cfg: DictConfig) -> None:
    """Entry of `foretune-generate`."""
    if run(from_hydra(cfg, GenerateConfig)).interrupted:
        raise SystemExit(INTERRUPTED)


if __name__ == "__main__":
    main()
