"""`foretune-tune`: tune a network with a pretrained cost model, compile it, check it, time it, report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import hydra
import psutil
import torch
import tvm
from omegaconf import DictConfig
from rich.console import Console
from tvm.support.cc import get_cc
from tvm.target import Target

from .. import __version__
from ..configuration import from_hydra
from ..dataset.features import FEATURE_VERSION
from ..dataset.hardware import Hardware
from ..dataset.measure import Executor, ExecutorConfig, MeasureConfig, make_executor
from ..dataset.networks import AS_FASTEST, Lowering, Network, extract_tasks, load_network, to_relax
from ..dataset.progress import job_progress
from ..dataset.tvm_compat import parse_target
from ..errors import UserError, exits_cleanly
from ..models.checkpoint import load_checkpoint
from .compiled import OutputCheck, bind_eager, check_outputs, compare_latency, compile_network
from .draft_choice import with_fitting_draft
from .energy import ReportConfig
from .search_config import OneShotConfig
from .searchers import Searcher, hold_back, start_searchers
from .stages import StageClock
from .tune_result import (
    EAGER,
    TUNED,
    UNTUNED,
    LatencyStats,
    RivalCurve,
    TaskResult,
    TuneResult,
    load_result,
    untuned_by_tasks_s,
)
from .tuner import Limits, NetworkTuner
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
    # Seconds for search and measurement, counted from the start of the run; null is as long as they take.
    budget_s: float | None = None
    # Estimated latency of the network, in seconds, at which tuning ends; null for none.
    latency_target_s: float | None = None
    # Where to write the tuned network as a shared library; null for nowhere.
    export: Path | None = None
    timing_repeats: int = 15
    # The untuned network is timed, too, unless its tasks say that a run takes longer; null is always.
    untuned_limit_s: float | None = 1.0
    workers: int | None = None
    profile: bool = False
    lowering: Lowering = AS_FASTEST
    search: OneShotConfig = field(default_factory=OneShotConfig)
    measure: MeasureConfig = field(default_factory=MeasureConfig)
    executor: ExecutorConfig = field(default_factory=ExecutorConfig)
    report: ReportConfig = field(default_factory=ReportConfig)

    def __post_init__(self) -> None:
        if self.timing_repeats < 1:
            raise TuneConfigError(f"timing_repeats={self.timing_repeats}: must be at least 1")
        for name in ("budget_s", "latency_target_s", "untuned_limit_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise TuneConfigError(f"{name}={value}: seconds over 0, or null for none")
        if self.export is not None and self.executor.kind != "local":
            raise TuneConfigError(
                f"export={self.export}: only what runs here is compiled, and executor={self.executor.kind} "
                "is elsewhere; leave it out, or use executor=local"
            )
        if self.export is not None and get_cc() is None:
            raise TuneConfigError(
                f"export={self.export}: a library is linked by a C++ compiler; install g++, or leave it out"
            )


def run(config: TuneConfig, console: Console | None = None, started: float | None = None) -> TuneResult:
    """Tunes, compiles, checks and times a network, and writes the report. Raises UserError.

    `started` is when the run began, on `time.time`'s clock, where that was before this call.
    """
    return _Run(config, console or Console(), started or time.time()).run()


class _Run:
    """One run, whose parts share clock and console."""

    def __init__(self, config: TuneConfig, console: Console, started: float) -> None:
        self.config = config
        self.console = console
        self.started = started
        self.started_at = datetime.fromtimestamp(started, timezone.utc).isoformat(timespec="seconds")
        self.watch = StageClock()
        self.work = StageClock()
        self.watch.add({"start and imports": self.elapsed_s()})

    def elapsed_s(self) -> float:
        return time.time() - self.started

    def run(self) -> TuneResult:
        config = self.config
        target = parse_target(config.target)
        self.config = config = replace(config, search=with_fitting_draft(config.search, target))
        rivals = _rivals(config.report)
        load_checkpoint(config.checkpoint, feature_version=FEATURE_VERSION)  # tells early what is wrong
        with ExitStack() as stack:
            with self.watch.stage("start and imports"):
                executor = stack.enter_context(
                    make_executor(config.executor, target, config.measure, config.workers)
                )
                hardware = executor.hardware()
                searchers = start_searchers(config.search, target, config.checkpoint, hardware)
                stack.callback(_close, searchers)
            with (
                self.watch.stage("network to tasks"),
                self.console.status(f"turning {config.network} into tasks"),
            ):
                network = load_network(
                    config.network,
                    inputs=config.inputs,
                    batch=config.batch,
                    seed=config.seed,
                    kwargs=config.kwargs,
                )
                relax_mod = to_relax(network, target, config.lowering)
            database = self._open_database(target, hardware)
            tuner, results = self._tune(relax_mod, network, target, executor, searchers, database)
        simulated = config.executor.kind == "dry_run"
        latencies: list[LatencyStats] = []
        check: OutputCheck | None = None
        if config.executor.kind == "local":
            latencies, check = self._compile_and_time(relax_mod, network, target, database, results)
        else:
            self.console.print(
                f"executor={config.executor.kind}: the network is not timed, since it does not run here"
            )
        result = TuneResult(
            network=network.name,
            target=str(target),
            hardware=hardware.name,
            checkpoint=config.checkpoint,
            settings={
                **{
                    name: asdict(getattr(config, name))
                    for name in ("lowering", "search", "measure", "executor")
                },
                **{name: getattr(config, name) for name in ("seed", "budget_s", "latency_target_s")},
            },
            tasks=results,
            latencies=latencies,
            max_abs_difference=None if check is None else check.max_abs_difference,
            tolerance=0.0 if check is None else check.tolerance,
            total_s=self.elapsed_s(),
            stage_s=self.watch.seconds,
            curve=tuner.curve,
            versions={"foretune": __version__, "tvm": tvm.__version__, "torch": torch.__version__},
            started_at=self.started_at,
            profile_s=self.work.seconds,
            power_w=config.report.power_w,
            co2_kg_per_kwh=config.report.co2_kg_per_kwh,
            rivals=rivals,
            simulated=simulated,
        )
        self._report(result, database)
        if check is not None and not check.agrees:
            raise OutputMismatchError(_mismatch(config, check))
        return result

    def _open_database(self, target: Target, hardware: Hardware) -> TuningDatabase:
        database = TuningDatabase(self.config.database, target, hardware)
        if database.dropped_lines:
            self.console.print(f"[yellow]{database.folder}: dropped an unfinished line that a stop had left")
        return database

    def _tune(
        self,
        relax_mod: tvm.IRModule,
        network: Network,
        target: Target,
        executor: Executor,
        searchers: Sequence[Searcher],
        database: TuningDatabase,
    ) -> tuple[NetworkTuner, list[TaskResult]]:
        config = self.config
        with self.watch.stage("network to tasks"):
            tasks = extract_tasks(relax_mod, target, network.name)
        with job_progress(self.console) as progress:
            bar = progress.add_task("tune", total=len(tasks))
            tuner = NetworkTuner(
                config.search,
                executor,
                searchers,
                database,
                limits=Limits(
                    in_time=lambda: config.budget_s is None or self.elapsed_s() < config.budget_s,
                    breadth_first=config.budget_s is not None,
                    latency_target_s=config.latency_target_s,
                ),
                retune=config.retune,
                clock=self.work,
                elapsed_s=self.elapsed_s,
                on_progress=lambda name, done: progress.update(
                    bar, description=name, completed=int(done * len(tasks))
                ),
                around_measuring=hold_back(config.search, executor, searchers),
            )
            try:
                with self.watch.stage("search and measure"):
                    return tuner, tuner.tune(tasks)
            except KeyboardInterrupt:
                self.console.print(
                    f"{tuner.tuned} of {len(tasks)} tasks have a schedule; what was measured is kept in "
                    f"{database.folder}"
                )
                raise

    def _compile_and_time(
        self,
        relax_mod: tvm.IRModule,
        network: Network,
        target: Target,
        database: TuningDatabase,
        results: Sequence[TaskResult],
    ) -> tuple[list[LatencyStats], OutputCheck]:
        with self.watch.stage("compile"), self.console.status("compiling the network"):
            tuned = compile_network(relax_mod, target, database.database)
            forms = {TUNED: tuned}
            # Without a schedule, nothing runs on a GPU.
            if target.kind.name == "llvm" and self._time_for_untuned(results):
                forms[UNTUNED] = compile_network(relax_mod, target)
        with self.watch.stage("check outputs"):
            check = check_outputs(network, tuned)
        if self.config.export is not None and check.agrees:
            with self.watch.stage("export"), self.console.status(f"writing {self.config.export}"):
                tuned.export(self.config.export)
        with self.watch.stage("time the network"), self.console.status("timing the network in turns"):
            calls = {name: form.bind(*network.inputs) for name, form in forms.items()}
            if network.module is not None and target.kind.name == "llvm":
                calls[EAGER] = bind_eager(network)
            return compare_latency(calls, repeats=self.config.timing_repeats), check

    def _time_for_untuned(self, results: Sequence[TaskResult]) -> bool:
        """Whether `untuned_limit_s` lets the untuned network be timed; an unknown task takes too long."""
        limit_s, takes_s = self.config.untuned_limit_s, untuned_by_tasks_s(results)
        return limit_s is None or (takes_s is not None and takes_s <= limit_s)

    def _report(self, result: TuneResult, database: TuningDatabase) -> None:
        # Its plots take two seconds to import, which the searches would start later by.
        from .report import print_profile, print_report, write_report

        print_report(result, self.console)
        if self.config.profile:
            print_profile(result, self.console)
        for path in write_report(result, self.config.output):
            self.console.print(f"wrote {path}", highlight=False, soft_wrap=True)
        if self.config.export is not None:
            self.console.print(
                f"wrote {self.config.export}: relax.VirtualMachine(tvm.runtime.load_module("
                f"{str(self.config.export)!r}), device)['main'](*inputs)",
                highlight=False,
                soft_wrap=True,
            )
        if not result.simulated:
            self.console.print(
                f"schedules for stock TVM: ms.database.JSONDatabase(work_dir={str(database.folder)!r})",
                highlight=False,
                soft_wrap=True,
            )


def _close(searchers: Sequence[Searcher]) -> None:
    for searcher in searchers:
        searcher.close()


def _rivals(config: ReportConfig) -> list[RivalCurve]:
    """Raises ResultFormatError."""
    if config.beside is None:
        return []
    other = load_result(config.beside)
    return [RivalCurve(other.checkpoint or str(config.beside), other.curve)]


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
    run(from_hydra(cfg, TuneConfig), started=psutil.Process().create_time())


if __name__ == "__main__":
    main()
