"""`foretune generate`: sample tasks, sample programs of each, measure them and store the records.

A run loops over tasks, and each round of a task writes one shard. The same command continues a run that was
stopped in any way: it skips tasks with enough records and continues others with what their sampler learned.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack

from omegaconf import DictConfig
from rich.console import Console
from tvm.target import Target

from ..compiler.targets import is_cpu
from ..compiler.task import Task
from ..compiler.tvm_compat import parse_target, target_to_json
from ..configuration import from_hydra
from ..signals import as_interrupted, exit_status
from ..sweep import RunOutcome
from ..terminal import CommandConsole, say
from ..wording import counted
from .generation.config import GenerateConfig
from .generation.core_use import CoreUse
from .generation.crew import EarlyEnd, give_up_queue, plan_crew, run_device_workers
from .generation.earlier_records import EarlierRecords
from .generation.generation import Generation
from .generation.network_tasks import tasks_of_networks
from .generation.progress import GenerateProgress
from .generation.runs import store_run
from .generation.samplers import Samplers, make_samplers
from .generation.summary import GenerateSummary, print_summary
from .generation.testbed import Testbed, check_measurement
from .generation.throughput import GenerationClock
from .hardware import forget_probes
from .measure import WorkerPool, make_executor
from .measure.executors.base import Executor
from .measure.worker.memory_counters import uncounted_reason
from .records.datasheet.overview import read_overview
from .records.datasheet.write import write_datasheet
from .records.low_peaks import REMEDY, LowPeak
from .records.network_weights import NetworkWeights, merged_networks, read_networks, write_networks
from .records.store import RecordStore
from .records.stored_tasks import stored_rows, stored_task, task_row
from .sampling.programs import DatabaseTasks, make_scorer
from .sampling.tasks import sample_tasks


def run(config: GenerateConfig, console: Console | None = None) -> GenerateSummary:
    """Generate the dataset; may be interrupted and called again. Raises UserError."""
    console = console or CommandConsole()
    started = time.monotonic()
    ending = EarlyEnd(started + config.budget_s if config.budget_s else math.inf)
    target = parse_target(config.target)
    database = _check_program_sampling(config, console)
    store = RecordStore(config.dataset)
    of_networks, networks = _network_tasks(config, target, console)
    clock = GenerationClock()
    with ExitStack() as opened:
        opened.enter_context(store.writing())
        with console.status(f"opening the devices of executor={config.executor.kind}"):
            executor = opened.enter_context(
                make_executor(config.executor, target, config.measure, config.workers)
            )
        crew = plan_crew(config, target, executor.devices)
        samplers = opened.enter_context(make_samplers(crew.samplers, config, target, clock, ending.is_due))
        if crew.pauses and isinstance(executor, WorkerPool):
            executor.timing_context = samplers.paused
        testbed = _testbed(config, executor, store, clock, console)
        with console.status("sampling tasks"):
            tasks = of_networks or _tasks(config, target, database)
        _store_tasks(store, tasks, networks)
        earlier = EarlierRecords(
            store,
            [task.workload_hash for task in tasks],
            testbed.hardware.hardware_id,
            target_to_json(target),
            config.is_enough,
        )
        _wait_for(samplers, crew.samplers, console)
        use = CoreUse(lambda: {**executor.stage_pids, "sampling": samplers.pids})
        progress = GenerateProgress(
            console,
            clock,
            use,
            total=len(tasks) * config.records_per_task,
            devices=executor.devices,
            deadline=ending.deadline,
            most=config.max_records,
        )
        progress.advance(earlier.begun)
        traces = database.traces if database else {}
        generation = Generation(config, store, testbed, samplers, earlier, progress, ending.deadline, traces)
        summary = _generate(tasks, generation, progress, executor, ending, crew.tasks)
        summary.used(clock, use, executor.devices)
        _check_peaks(store, testbed, console)
        store_run(store, summary)
        if not summary.interrupted:
            _complete(store, console, with_datasheet=config.datasheet and summary.total_records > 0)
    if config.executor.kind == "local" and is_cpu(target):
        summary.uncounted_reason = uncounted_reason()
    summary.repeated = testbed.repeated
    summary.seconds = time.monotonic() - started
    print_summary(summary, config.dataset, console)
    return summary


def _wait_for(samplers: Samplers, count: int, console: Console) -> None:
    """Wait for the processes of the samplers to start."""
    processes = counted(count, "process that proposes", "processes that propose")
    with console.status(f"starting {processes} programs"):
        samplers.wait_ready()


def _testbed(
    config: GenerateConfig, executor: Executor, store: RecordStore, clock: GenerationClock, console: Console
) -> Testbed:
    """Check the measurement, and store the description of the device."""
    target = parse_target(config.target)
    if config.self_check:
        with console.status("checking the measurement of a small task"):
            check_measurement(executor, target)
    testbed = Testbed(executor, target, config.noise, clock)
    for bad in store.set_aside_bad_shards():
        say(console, f"set aside {bad.path.name}: {bad.reason}; its records are measured again", "yellow")
    store.put_hardware(testbed.hardware)
    return testbed


def _check_peaks(store: RecordStore, testbed: Testbed, console: Console) -> None:
    """Measures the device's peaks again if a program is faster than they allow.

    If a program is still faster, its rate becomes the peak. Names what remains doubtful.
    """
    this = testbed.hardware.hardware_id

    def doubtful() -> list[LowPeak]:
        return [low for low in read_overview(store).low_peaks if low.hardware.hardware_id == this]

    if doubtful():
        with console.status("measuring the peaks of the device again"):
            if isinstance(testbed.executor, WorkerPool):
                forget_probes()
            store.put_hardware(testbed.executor.hardware())
    for low in doubtful():
        if low.is_exceeded:
            store.put_hardware(low.raised)
    for low in doubtful():
        say(console, f"{low}; {REMEDY}", "yellow")


def _store_tasks(store: RecordStore, tasks: Sequence[Task], networks: NetworkWeights) -> None:
    """Write the tasks that are new to the dataset, and the weights of networks."""
    if networks:
        write_networks(store, merged_networks([read_networks(store.folder), networks], store.folder))
    known = {row.workload_hash for row in store.tasks()}
    store.append_tasks([task_row(task) for task in tasks if task.workload_hash not in known])


def _generate(
    tasks: Sequence[Task],
    generation: Generation,
    progress: GenerateProgress,
    executor: Executor,
    ending: EarlyEnd,
    tasks_per_device: int,
) -> GenerateSummary:
    """Measure all tasks, several at a time on each device, until the end or an interruption."""

    def interrupted() -> None:
        progress.interrupted()
        ending.stop.set()
        give_up_queue(executor)

    try:
        with progress, ending.applied_to(executor):
            devices = list(range(executor.devices)) * tasks_per_device
            run_device_workers(tasks, devices, generation.run_task, interrupted, ending.stop)
    except KeyboardInterrupt as error:
        generation.summary.interrupted = as_interrupted(error).number
    return generation.summary


def _complete(store: RecordStore, console: Console, *, with_datasheet: bool) -> None:
    """Compact a dataset whose run was not interrupted, and describe it."""
    store.compact()
    if with_datasheet:
        with console.status("writing the datasheet"):
            datasheet = write_datasheet(store)
        say(console, f"wrote {datasheet}")


def _check_program_sampling(config: GenerateConfig, console: Console) -> DatabaseTasks | None:
    """Check the settings before anything is measured; returns the database of the database sampler."""
    sampling = config.program_sampling
    if sampling.uses_scorer:
        make_scorer(sampling.scorer, config.per_round, sampling.checkpoint_scorer)
    if sampling.sampler != "database" or sampling.database is None:
        return None
    with console.status(f"reading the programs of {sampling.database}"):
        return DatabaseTasks(sampling.database)


def _network_tasks(
    config: GenerateConfig, target: Target, console: Console
) -> tuple[list[Task], NetworkWeights]:
    """Tasks and weights of `config.networks`; both empty without networks."""
    if not config.networks:
        return [], {}
    with console.status("extracting the tasks of the networks"):
        return tasks_of_networks(config.networks, target, config.lowering)


def _tasks(config: GenerateConfig, target: Target, database: DatabaseTasks | None) -> list[Task]:
    if database is not None:
        return database.tasks[: config.tasks]
    if config.tasks_from is not None:
        return [stored_task(row) for row in stored_rows(config.tasks_from)[: config.tasks]]
    given = {name: value for name, value in config.task_sampling.items() if value is not None}
    if not is_cpu(target):
        given.setdefault("prepack", 0.0)
    return sample_tasks(n=config.tasks, seed=config.seed, **given)


def main(config: DictConfig) -> RunOutcome:
    """Entry point of `foretune generate`; several runs are compared by their rate."""
    summary = run(from_hydra(config, GenerateConfig))
    status = exit_status(summary.interrupted) if summary.interrupted else 0
    return RunOutcome("records per minute", summary.records_per_minute, status=status)
