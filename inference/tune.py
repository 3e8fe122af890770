"""`foretune-tune`: tune a network with a pretrained cost model, compile it, check it, time it, report."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import hydra
import torch
import tvm
from omegaconf import DictConfig
from rich.console import Console
from tvm.target import Target

from .. import __version__
from ..configuration import from_hydra
from ..dataset.measure import MeasureConfig, MeasureJob, WorkerPool
from ..dataset.networks import Network, extract_tasks, load_network, to_relax
from ..dataset.progress import job_progress
from ..dataset.target_hardware import target_hardware
from ..dataset.task import Task
from ..dataset.tvm_compat import NoDesignSpaceError, parse_target
from ..errors import UserError, exits_cleanly
from .compiled import OutputCheck, bind_eager, check_outputs, compare_latency, compile_network
from .one_shot import OneShotConfig, search_one_shot
from .plugin import PretrainedCostModel
from .report import print_report, write_report
from .tune_result import EAGER, TUNED, UNTUNED, LatencyStats, TaskResult, TuneResult
from .tuning_database import TuningDatabase


class TuneConfigError(UserError, ValueError):
    """A setting of the tuning run cannot be."""


class OutputMismatchError(UserError, RuntimeError):
    """The tuned network computes something else than the original."""


@dataclass(frozen=True)
class TuneConfig:
    """One tuning run; the fields are those of conf/tune.yaml."""

    network: str
    checkpoint: str
    output: Path
    database: Path
    target: Any = "llvm"
    inputs: list[Any] | None = None
    kwargs: dict[str, Any] | None = None
    batch: int = 1
    seed: int = 0
    retune: bool = False
    timing_repeats: int = 15
    workers: int | None = None
    search: OneShotConfig = field(default_factory=OneShotConfig)
    measure: MeasureConfig = field(default_factory=MeasureConfig)

    def __post_init__(self) -> None:
        if self.timing_repeats < 1:
            raise TuneConfigError(f"timing_repeats={self.timing_repeats}: must be at least 1")


class Stopwatch:
    """Seconds by stage of a run."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self.stage_s: defaultdict[str, float] = defaultdict(float)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._start

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self.stage_s[name] += time.monotonic() - start


def run(config: TuneConfig, console: Console | None = None) -> TuneResult:
    """Tunes, compiles, checks and times a network, and writes the report. Raises UserError."""
    console = console or Console()
    watch = Stopwatch()
    started_at = datetime.now(timezone.utc).isoformat(timespec="seconds")
    target = parse_target(config.target)
    if target.kind.name != "llvm":
        raise TuneConfigError(f"target={config.target}: this version tunes CPU targets only; use target=llvm")
    with watch.stage("checkpoint"):
        hardware = target_hardware(target)
        model = PretrainedCostModel.load(config.checkpoint, hardware)
    with WorkerPool(target, config.measure, config.workers) as pool:
        with watch.stage("network to tasks"), console.status(f"turning {config.network} into tasks"):
            network = load_network(
                config.network,
                inputs=config.inputs,
                batch=config.batch,
                seed=config.seed,
                kwargs=config.kwargs,
            )
            relax_mod = to_relax(network, target)
            tasks = extract_tasks(relax_mod, target, network.name)
        database = TuningDatabase(config.database, target, hardware)
        if database.dropped_lines:
            console.print(f"[yellow]{database.folder}: dropped an unfinished line that a stop had left")
        tuner = NetworkTuner(config, target, model, pool, database, watch)
        try:
            results = tuner.tune(tasks, console)
        except KeyboardInterrupt:
            console.print(f"{tuner.tuned} tasks are done; their schedules are kept in {database.folder}")
            raise
    with watch.stage("compile"), console.status("compiling the tuned and the untuned network"):
        tuned = compile_network(relax_mod, target, database.database)
        untuned = compile_network(relax_mod, target)
    with watch.stage("check outputs"):
        check = check_outputs(network, tuned)
    with watch.stage("time the network"), console.status("timing the network, tuned and untuned, in turns"):
        latencies = _time_network(network, tuned, untuned, config.timing_repeats)
    result = TuneResult(
        network=network.name,
        target=str(target),
        hardware=hardware.name,
        checkpoint=config.checkpoint,
        settings={"search": asdict(config.search), "measure": asdict(config.measure), "seed": config.seed},
        tasks=results,
        latencies=latencies,
        max_abs_difference=check.max_abs_difference,
        tolerance=check.tolerance,
        total_s=watch.elapsed_s,
        stage_s=dict(watch.stage_s),
        curve=tuner.curve,
        versions={"foretune": __version__, "tvm": tvm.__version__, "torch": torch.__version__},
        started_at=started_at,
    )
    print_report(result, console)
    paths = write_report(result, config.output)
    for path in paths:
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
    console.print(
        f"schedules for stock TVM: ms.database.JSONDatabase(work_dir={str(database.folder)!r})",
        highlight=False,
        soft_wrap=True,
    )
    if not check.agrees:
        raise OutputMismatchError(_mismatch(config, check))
    return result


class NetworkTuner:
    """Tunes the tasks of a network one after the other, those with the largest share of its time first."""

    def __init__(
        self,
        config: TuneConfig,
        target: Target,
        model: PretrainedCostModel,
        pool: WorkerPool,
        database: TuningDatabase,
        watch: Stopwatch,
    ) -> None:
        self.config = config
        self.target = target
        self.model = model
        self.pool = pool
        self.database = database
        self.watch = watch
        self.curve: list[tuple[float, float]] = []
        """(seconds since the start, estimated latency of the network in seconds)."""
        self.tuned = 0

    def tune(self, tasks: list[Task], console: Console) -> list[TaskResult]:
        """A result for each task, in their order."""
        with self.watch.stage("measure untuned"), console.status("measuring the tasks untuned"):
            jobs = [MeasureJob(tvm.ir.save_json(task.mod)) for task in tasks]
            untuned = [self.pool.measure([job])[0].latency_s for job in jobs]
        shares_s = [task.weight * latency for task, latency in zip(tasks, untuned, strict=True)]
        self._note(shares_s)
        results: dict[int, TaskResult] = {}
        with job_progress(console) as progress:
            bar = progress.add_task("tune", total=len(tasks))
            for number in sorted(range(len(tasks)), key=lambda i: -shares_s[i]):
                task = tasks[number]
                progress.update(bar, description=task.name)
                result = self._tune_task(task, untuned[number])
                results[number] = result
                if result.network_s is not None:
                    shares_s[number] = result.network_s
                self._note(shares_s)
                self.tuned += 1
                progress.advance(bar)
        return [results[number] for number in range(len(tasks))]

    def _note(self, shares_s: list[float]) -> None:
        self.curve.append((self.watch.elapsed_s, sum(shares_s)))

    def _tune_task(self, task: Task, untuned_s: float) -> TaskResult:
        untuned = untuned_s if untuned_s != float("inf") else None
        known = None if self.config.retune else self.database.best_latency_s(task)
        if known is not None:
            return _task_result(task, untuned, known, from_database=True)
        try:
            found = search_one_shot(task, self.target, self.model, self.pool, self.config.search)
        except NoDesignSpaceError:
            return _task_result(task, untuned, None, reason="nothing to tune")
        self.watch.stage_s["search"] += found.search_s
        self.watch.stage_s["measure"] += found.measure_s
        best_s = found.best.outcome.latency_s if found.best else None
        reason = ""
        if best_s is None:
            reason = "no candidate ran"
        elif best_s >= untuned_s:
            best_s, reason = None, "untuned is faster"
        else:
            self.database.commit(task, found.validations)
        return _task_result(
            task,
            untuned,
            best_s,
            reason=reason,
            candidates_scored=found.candidates_scored,
            candidates_measured=len(found.validations),
            candidates_failed=sum(v.outcome.failure is not None for v in found.validations),
            search_s=found.search_s,
            measure_s=found.measure_s,
            predicted_scores=[v.predicted_score for v in found.validations],
            measured_latencies_s=[v.outcome.latency_s for v in found.validations],
        )


def _task_result(task: Task, untuned_s: float | None, tuned_s: float | None, **details: Any) -> TaskResult:
    """A task's result; counts are zero and lists empty unless given."""
    empty: dict[str, Any] = {
        "candidates_scored": 0,
        "candidates_measured": 0,
        "candidates_failed": 0,
        "search_s": 0.0,
        "measure_s": 0.0,
        "predicted_scores": [],
        "measured_latencies_s": [],
    }
    return TaskResult(
        name=task.name,
        operator=task.operator,
        workload_hash=task.workload_hash,
        weight=task.weight,
        flops=task.flops,
        untuned_latency_s=untuned_s,
        tuned_latency_s=tuned_s,
        **{**empty, **details},
    )


def _time_network(network: Network, tuned: Any, untuned: Any, repeats: int) -> list[LatencyStats]:
    calls = {TUNED: tuned.bind(*network.inputs), UNTUNED: untuned.bind(*network.inputs)}
    if network.module is not None:
        calls[EAGER] = bind_eager(network)
    return compare_latency(calls, repeats=repeats)


def _mismatch(config: TuneConfig, check: OutputCheck) -> str:
    return (
        f"network={config.network}: tuned outputs differ from the original by up to "
        f"{check.max_abs_difference:.3g}, over the tolerance of {check.tolerance:.3g}; do not use this "
        f"build; tune again with retune=true, and report it with {config.output / 'report.json'}"
    )


@hydra.main(config_path="pkg://foretune.conf", config_name="tune", version_base="1.3")
@exits_cleanly()
def main(cfg: DictConfig) -> None:
    """Entry of `foretune-tune`."""
    run(from_hydra(cfg, TuneConfig))


if __name__ == "__main__":
    main()
