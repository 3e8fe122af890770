"""The tuners of `tuning_curves.py`, which tell when they find what they take for their best program."""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import tvm
from foretune.dataset.measure import MeasureJob, WorkerPool
from foretune.dataset.records import latency_of
from foretune.dataset.task import Task
from foretune.inference import OneShotConfig, PretrainedCostModel
from foretune.inference.draft_choice import with_fitting_draft
from foretune.inference.one_shot import search_one_shot
from foretune.models.checkpoint import load_checkpoint
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target


@dataclass
class Curve:
    """The programs that a tuner took for its best, and when."""

    start: float = field(default_factory=time.perf_counter)
    improvements: list[tuple[float, float, str]] = field(default_factory=list)
    """Seconds since the start, latency in seconds as the tuner measured it, module as JSON."""
    measured: int = 0

    def tell(self, latency_s: float, module: Callable[[], str]) -> None:
        """Takes a measured program; `module` is called for its JSON if it is the best so far."""
        self.measured += 1
        if latency_s < (self.improvements[-1][1] if self.improvements else math.inf):
            self.improvements.append((time.perf_counter() - self.start, latency_s, module()))


@dataclass(frozen=True)
class Tuner:
    """One way to tune a task, and what it follows from."""

    run: Callable[[Task, Target, int], Curve]
    """By task, target and seed."""
    settings: dict[str, Any]
    """JSON values; a run with others is another run."""


def tuners(checkpoint: str, trials: int) -> dict[str, Tuner]:
    """The tuners of a CPU by name; `trials` are those of MetaSchedule's."""
    return {
        "foretune": _foretune(checkpoint, OneShotConfig()),
        "foretune_longer": _foretune(checkpoint, LONGER),
        "evolution": _foretune(checkpoint, OneShotConfig(strategy="evolutionary")),
        "stock": _metaschedule(trials, fast=False),
        "stock_measured_by_foretune": _metaschedule(trials, fast=True),
        "random": _metaschedule(trials, fast=True, strategy="replay-trace"),
    }


LONGER = OneShotConfig(rounds=12, top_k=96)
"""The default search with twice its rounds and measurements."""


def _foretune(checkpoint: str, config: OneShotConfig) -> Tuner:
    def run(task: Task, target: Target, seed: int) -> Curve:
        curve = Curve()
        model = PretrainedCostModel.load(checkpoint)
        with WorkerPool(target) as pool:
            search_one_shot(task, target, model, _Watched(pool, curve), replace(config, seed=seed))
        return curve

    return Tuner(run, searched_with(checkpoint, config))


def searched_with(checkpoint: str, config: OneShotConfig) -> dict[str, Any]:
    """What a search of a CPU follows from, as JSON values; a checkpoint is its weights, not its folder."""
    draft = (
        with_fitting_draft(config, Target("llvm")).draft.checkpoint if config.strategy == "draft" else None
    )
    return {
        "checkpoint": checkpoint,
        "weights_sha256": _weights(checkpoint),
        "draft_weights_sha256": _weights(draft) if draft else None,
        "search": asdict(config),
    }


@cache
def _weights(checkpoint: str) -> str:
    return load_checkpoint(checkpoint).card.weights_sha256


def _metaschedule(trials: int, *, fast: bool, strategy: str = "evolutionary") -> Tuner:
    settings: dict[str, Any] = {
        "strategy": strategy,
        "cost_model": "xgb" if strategy == "evolutionary" else "random",
        "max_trials_global": trials,
    }

    def run(task: Task, target: Target, seed: int) -> Curve:
        curve = Curve()
        callbacks = [_CurveCallback(curve), *ms.measure_callback.MeasureCallback.create("default")]
        with tempfile.TemporaryDirectory() as folder:
            given = settings | {"measure_callbacks": callbacks, "seed": seed}
            if not fast:
                ms.tune_tir(task.mod, target, folder, **given)
                return curve
            with WorkerPool(target) as pool:
                measured = {"builder": _ModuleBuilder(folder), "runner": _PoolRunner(pool)}
                ms.tune_tir(task.mod, target, folder, **measured, **given)
        return curve

    measured_by = "foretune" if fast else "LocalBuilder and LocalRunner"
    return Tuner(run, settings | {"measured_by": measured_by, "tvm": tvm.__version__})


class _Watched:
    """An executor that tells a curve what it measures; what is timed again counts once."""

    def __init__(self, pool, curve):
        self.pool, self.curve = pool, curve
        self.seen = set()

    def measure(self, jobs):
        outcomes = self.pool.measure(jobs)
        for job, outcome in zip(jobs, outcomes, strict=True):
            self.curve.tell(outcome.latency_s, lambda job=job: job.module)
            self.seen.add(job.module)
        self.curve.measured = len(self.seen)
        return outcomes


@derived_object
class _CurveCallback(ms.measure_callback.PyMeasureCallback):
    """Tells a curve what MetaSchedule measures."""

    def __init__(self, curve):
        super().__init__()
        self.curve = curve

    def apply(self, task_scheduler, task_id, measure_candidates, builder_results, runner_results):
        for candidate, result in zip(measure_candidates, runner_results, strict=True):
            latency_s = statistics.fmean(float(s) for s in result.run_secs) if result.run_secs else math.inf
            self.curve.tell(latency_s, lambda candidate=candidate: tvm.ir.save_json(candidate.sch.mod))


@derived_object
class _ModuleBuilder(ms.builder.PyBuilder):
    """Leaves modules as they are for a runner that builds them itself."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.count = Path(folder), 0

    def build(self, build_inputs):
        results = []
        for each in build_inputs:
            self.count += 1
            # MetaSchedule removes the folder of a module that has been run.
            path = self.folder / str(self.count) / "module.json"
            path.parent.mkdir()
            path.write_text(tvm.ir.save_json(each.mod))
            results.append(ms.builder.BuilderResult(str(path), None))
        return results


@derived_object
class _PoolRunner(ms.runner.PyRunner):
    """Builds and times with foretune's worker pool."""

    def __init__(self, pool):
        super().__init__()
        self.pool = pool

    def run(self, runner_inputs):
        jobs = [MeasureJob(Path(each.artifact_path).read_text()) for each in runner_inputs]
        return [_future(outcome) for outcome in self.pool.measure(jobs)]


def _future(outcome):
    if outcome.failure is None:
        result = ms.runner.RunnerResult([latency_of(outcome.run_secs)], None)
    else:
        result = ms.runner.RunnerResult(None, outcome.message or outcome.failure.value)
    return ms.runner.RunnerFuture(lambda: True, lambda: result)
