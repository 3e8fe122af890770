"""The tuners: foretune in a separate process, and MetaSchedule's tuners with either measurement."""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tvm
from foretune.compiler.task import Task
from foretune.dataset.measure import MeasureJob, WorkerPool
from foretune.dataset.records.schema import latency_of
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..common import ROOT
from ..single_tasks.processes import search

FORETUNE: Mapping[str, tuple[str, ...]] = {
    "foretune": (),
    "foretune_longer": ("rounds=12", "top_k=96"),
    "evolution": ("strategy=evolutionary",),
}
"""Settings of foretune's tuners."""

METASCHEDULE: Mapping[str, Mapping[str, Any]] = {
    "stock": {
        "strategy": "evolutionary",
        "cost_model": "xgb",
        "measured_by": "LocalBuilder and LocalRunner",
    },
    "stock_measured_by_foretune": {
        "strategy": "evolutionary",
        "cost_model": "xgb",
        "measured_by": "foretune",
    },
    "random": {"strategy": "replay-trace", "cost_model": "random", "measured_by": "foretune"},
}
"""Settings of MetaSchedule's tuners."""

TUNERS = (*FORETUNE, *METASCHEDULE)

TIMED_WITHIN = 1.5
"""Multiple of its tuner's best latency above which a program is not timed again."""

Run = dict[str, Any]
"""`seconds`, `measured` and `steps`: seconds since the start, latency in seconds by the tuner's measurement,
and the module as JSON, or None if it is not timed again."""


@dataclass
class Curve:
    """A tuner's best programs over time."""

    start: float = field(default_factory=time.perf_counter)
    steps: list[tuple[float, float, str]] = field(default_factory=list)
    measured: int = 0

    def tell(self, latency_s: float, module: Callable[[], str]) -> None:
        """Processes a measured program; `module` is called for its JSON if the program is the best so far."""
        self.measured += 1
        if latency_s < (self.steps[-1][1] if self.steps else math.inf):
            self.steps.append((time.perf_counter() - self.start, latency_s, module()))

    def run(self) -> Run:
        """The finished run."""
        best_s = self.steps[-1][1] if self.steps else math.inf
        steps = [
            (at_s, own_s, module if own_s <= TIMED_WITHIN * best_s else None)
            for at_s, own_s, module in self.steps
        ]
        return {"seconds": time.perf_counter() - self.start, "measured": self.measured, "steps": steps}


def run_foretune(tuner: str, task: Path, seed: int) -> Run:
    """Searches the task in a file in a process of this checkout."""
    found = search(ROOT, task, seed, FORETUNE[tuner])
    step = (found["seconds"], found["told_s"], found["module"])
    return {
        "seconds": found["seconds"],
        "measured": found["measured"],
        "steps": [step] if found["module"] else [],
    }


def run_metaschedule(tuner: str, task: Task, target: Target, trials: int, seed: int) -> Run:
    """Runs one of MetaSchedule's tuners in this process."""
    settings = dict(METASCHEDULE[tuner])
    fast = settings.pop("measured_by") == "foretune"
    curve = Curve()
    settings |= {
        "max_trials_global": trials,
        "seed": seed,
        "measure_callbacks": [_CurveCallback(curve), *ms.measure_callback.MeasureCallback.create("default")],
    }
    with tempfile.TemporaryDirectory() as folder:
        if not fast:
            ms.tune_tir(task.mod, target, folder, **settings)
            return curve.run()
        with WorkerPool(target) as pool:
            settings |= {"builder": _ModuleBuilder(folder), "runner": _PoolRunner(pool)}
            ms.tune_tir(task.mod, target, folder, **settings)
        return curve.run()


@derived_object
class _CurveCallback(ms.measure_callback.PyMeasureCallback):
    """Forwards MetaSchedule's measurements to a curve."""

    def __init__(self, curve):
        super().__init__()
        self.curve = curve

    def apply(self, task_scheduler, task_id, measure_candidates, builder_results, runner_results):
        for candidate, result in zip(measure_candidates, runner_results, strict=True):
            latency_s = statistics.fmean(float(s) for s in result.run_secs) if result.run_secs else math.inf
            self.curve.tell(latency_s, lambda candidate=candidate: tvm.ir.save_json(candidate.sch.mod))


@derived_object
class _ModuleBuilder(ms.builder.PyBuilder):
    """Passes modules on unchanged, for a runner that builds them."""

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
