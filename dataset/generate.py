"""`foretune-generate`: sample tasks, sample programs of each, measure them, store the records.

The run is a loop over tasks; each round of a task is one shard. Stopped in whatever way, the same command
goes on where it was: tasks with enough records are skipped, others continue with what they have learned.
"""

from __future__ import annotations

import itertools
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hydra
import tvm
from omegaconf import DictConfig
from rich.console import Console
from tvm.target import Target

from ..configuration import from_hydra
from ..errors import INTERRUPTED, UserError, exits_cleanly
from .hardware import probe_cpu
from .measure import MeasureConfig, MeasureJob, MeasureOutcome, WorkerPool
from .program_sampling import ExplorationConfig, ProgramSampler, best_latency_s, make_scorer
from .progress import job_progress
from .records import Record, TaskRow
from .replay import candidate_module_json, replay
from .store import RecordStore
from .task import Task
from .task_sampling import sample_tasks
from .tvm_compat import NoDesignSpaceError, parse_target, target_cores, target_to_json

# A round may propose only what was measured already; after so many in a row the space counts as exhausted.
_EMPTY_ROUNDS = 3


class GenerateConfigError(UserError, ValueError):
    """A setting of the generation run cannot be."""


@dataclass(frozen=True)
class GenerateConfig:
    """One generation run; the fields are those of conf/generate.yaml."""

    dataset: Path
    target: Any = "llvm"
    tasks: int = 100
    records_per_task: int = 60
    per_round: int = 20
    # A task whose programs are slow would take the time of many others.
    task_budget_s: float = 120.0
    seed: int = 0
    workers: int | None = None
    scorer: str = "xgboost"
    task_sampling: dict[str, Any] = field(default_factory=dict)
    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    measure: MeasureConfig = field(default_factory=MeasureConfig)

    def __post_init__(self) -> None:
        for name in ("tasks", "records_per_task", "per_round"):
            if getattr(self, name) < 1:
                raise GenerateConfigError(f"{name}={getattr(self, name)}: must be at least 1")


@dataclass(frozen=True)
class GenerateSummary:
    """What a run did; counts are of this run, `total_records` of the dataset."""

    tasks_done: int
    tasks_without_space: int
    measured: int
    valid: int
    total_records: int
    total_valid: int
    seconds: float
    interrupted: bool


def run(config: GenerateConfig, console: Console | None = None) -> GenerateSummary:
    """Generates the dataset; safe to interrupt and to call again. Raises UserError."""
    console = console or Console()
    target = parse_target(config.target)
    if target.kind.name != "llvm":
        raise GenerateConfigError(
            f"target={config.target}: this version measures CPU targets only; use target=llvm"
        )
    make_scorer(config.scorer, warm_up=config.per_round)  # fails now rather than after the sampling of tasks
    started = time.monotonic()
    store = RecordStore(config.dataset)
    counts = dict.fromkeys(("tasks_done", "tasks_without_space", "measured", "valid"), 0)
    interrupted = False
    with store.writing():
        for bad in store.set_aside_bad_shards():
            console.print(f"[yellow]set aside {bad.path.name}: {bad.reason}; what it held is measured again")
        hardware = probe_cpu(target_cores(target))
        store.put_hardware(hardware)
        earlier = _records_by_task(store, hardware.hardware_id, target_to_json(target))
        tasks = sample_tasks(n=config.tasks, seed=config.seed, **config.task_sampling)
        known = {row.workload_hash for row in store.tasks()}
        store.append_tasks([_task_row(task) for task in tasks if task.workload_hash not in known])
        with WorkerPool(target, config.measure, config.workers) as pool, job_progress(console) as progress:
            bar = progress.add_task("", total=len(tasks) * config.records_per_task)
            try:
                for number, task in enumerate(tasks):
                    progress.update(
                        bar,
                        description=f"task {number + 1}/{len(tasks)} {task.operator}",
                        completed=number * config.records_per_task,
                    )
                    campaign = TaskCampaign(task, target, hardware.hardware_id, config, pool)
                    try:
                        for records in campaign.rounds(earlier[task.workload_hash]):
                            store.append_records(records)
                            counts["measured"] += len(records)
                            counts["valid"] += sum(record.failure is None for record in records)
                            progress.advance(bar, len(records))
                    except NoDesignSpaceError:
                        counts["tasks_without_space"] += 1
                    else:
                        counts["tasks_done"] += 1
                progress.update(bar, completed=len(tasks) * config.records_per_task)
            except KeyboardInterrupt:
                interrupted = True
        if not interrupted:
            store.compact()
    records = store.records()
    summary = GenerateSummary(
        **counts,
        total_records=len(records),
        total_valid=sum(record.failure is None for record in records),
        seconds=time.monotonic() - started,
        interrupted=interrupted,
    )
    _say(console, config, summary)
    return summary


class TaskCampaign:
    """The measurement of one task: rounds of proposing, measuring and learning."""

    def __init__(
        self, task: Task, target: Target, hardware_id: str, config: GenerateConfig, pool: WorkerPool
    ) -> None:
        self.task = task
        self.target = target
        self.hardware_id = hardware_id
        self.config = config
        self.pool = pool

    def rounds(self, earlier: list[Record]) -> Iterator[list[Record]]:
        """Records of one round after the other, until there are enough or the time of the task is spent.

        `earlier` are the task's records of a run before, which the sampler learns from first. Raises
        NoDesignSpaceError.
        """
        config = self.config
        if len(earlier) >= config.records_per_task:
            return
        sampler = ProgramSampler(
            self.task,
            self.target,
            scorer=make_scorer(config.scorer, warm_up=config.per_round)(),
            config=config.exploration,
            per_round=config.per_round,
            seed=config.seed + len(earlier),
        )
        best_s = self._relearn(sampler, earlier)
        total = len(earlier)
        first_round = max((record.round for record in earlier), default=-1) + 1
        deadline = time.monotonic() + config.task_budget_s
        for number in itertools.count(first_round):
            if total >= config.records_per_task or time.monotonic() > deadline:
                return
            proposed = next(filter(None, (sampler.propose() for _ in range(_EMPTY_ROUNDS))), None)
            if proposed is None:
                return  # the space is exhausted
            jobs = [MeasureJob(candidate_module_json(candidate), best_s) for _, candidate in proposed]
            outcomes = self.pool.measure(jobs)
            sampler.learn(proposed, outcomes)
            best_s = min(best_s, best_latency_s(outcomes))
            total += len(proposed)
            yield [
                self._record(trace, outcome, number)
                for (trace, _), outcome in zip(proposed, outcomes, strict=True)
            ]

    def _relearn(self, sampler: ProgramSampler, earlier: list[Record]) -> float:
        """Teaches the sampler what was measured before; returns the best latency among it in seconds."""
        replayed = [(record, replay(sampler.context, record.trace)) for record in earlier]
        fitting = [(record, candidate) for record, candidate in replayed if candidate is not None]
        outcomes = [
            MeasureOutcome(record.run_secs, record.failure, record.failure_message) for record, _ in fitting
        ]
        sampler.learn([(record.trace, candidate) for record, candidate in fitting], outcomes)
        return best_latency_s(outcomes)

    def _record(self, trace: str, outcome: MeasureOutcome, number: int) -> Record:
        return Record(
            workload_hash=self.task.workload_hash,
            trace=trace,
            run_secs=outcome.run_secs,
            failure=outcome.failure,
            failure_message=outcome.message,
            cut_short=outcome.cut_short,
            sampler=f"exploration/{self.config.scorer}",
            round=number,
            seed=self.config.seed,
            hardware_id=self.hardware_id,
            target=target_to_json(self.target),
            tvm_version=tvm.__version__,
            timestamp=time.time(),
            build_s=outcome.build_s,
            run_s=outcome.run_s,
        )


def _records_by_task(store: RecordStore, hardware_id: str, target: str) -> defaultdict[str, list[Record]]:
    """Records of this device and target by workload hash."""
    found: defaultdict[str, list[Record]] = defaultdict(list)
    for record in store.records():
        if record.hardware_id == hardware_id and record.target == target:
            found[record.workload_hash].append(record)
    return found


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


def _say(console: Console, config: GenerateConfig, summary: GenerateSummary) -> None:
    rate = summary.measured / max(summary.seconds, 1e-9) * 60
    console.print(
        f"measured {summary.measured} candidates ({summary.valid} valid) of {summary.tasks_done} tasks in "
        f"{summary.seconds:.0f} s, {rate:.0f} a minute"
    )
    if summary.tasks_without_space:
        console.print(f"{summary.tasks_without_space} tasks have nothing to tune and were left out")
    console.print(f"{config.dataset} holds {summary.total_records} records, {summary.total_valid} valid")
    if summary.interrupted:
        console.print("interrupted: run the same command again to go on")
    else:
        console.print(f"next: foretune-train dataset={config.dataset}")


@hydra.main(config_path="pkg://foretune.conf", config_name="generate", version_base="1.3")
@exits_cleanly()
def main(cfg: DictConfig) -> None:
    """Entry of `foretune-generate`."""
    if run(from_hydra(cfg, GenerateConfig)).interrupted:
        raise SystemExit(INTERRUPTED)


if __name__ == "__main__":
    main()
