"""Latency against time: foretune's search beside stock MetaSchedule on the same tasks, one after the other.

    python benchmarks/tuning_curves.py --tasks resnet18:1 resnet18:2 GMM:0 --trials 1000
    python benchmarks/tuning_curves.py --tasks resnet18:all --tuners foretune stock --trials 64

A task is one of a network, by its place in the order of its share of the operations, or an operator of TVM's
`te_workload` with the number of its configuration. The tuners:

- foretune: one search with the shipped model and its validation, by the defaults of `foretune-tune`
- evolution: the same without the draft model
- stock: MetaSchedule's own search, XGBoost retrained on the way, LocalBuilder and LocalRunner
- stock_measured_by_foretune: the same search with foretune's measurement: what that part brings alone
- random: random programs of the same space with foretune's measurement

Each clock runs from before the model is loaded or the first process started. Whenever a tuner finds a program
that it takes for its best, the program is kept; at the end all kept programs of a task are timed in turns by
one evaluator, so that no tuner's own measurement decides. The file of a task is written when it is done, and
a task that has its file is not tuned again: stop it and go on as you like, on one machine.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import tvm
from foretune.dataset.measure import MeasureConfig, MeasureJob, WorkerPool
from foretune.dataset.networks import extract_tasks, load_network, to_relax
from foretune.dataset.records import latency_of
from foretune.dataset.tvm_compat import as_task_module, load_tensor_intrinsics, parse_target
from foretune.inference import OneShotConfig, PretrainedCostModel
from foretune.inference.api import as_task
from foretune.inference.one_shot import search_one_shot
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.testing import te_workload

RESULTS = Path(__file__).parent / "results" / "tuning_curves"
ROUNDS = 7
"""How often each kept program is timed at the end."""


@dataclass
class Curve:
    """The programs that a tuner took for its best, and when."""

    start: float = field(default_factory=time.perf_counter)
    improvements: list[tuple[float, float, str]] = field(default_factory=list)
    """Seconds since the start, latency in seconds as the tuner measured it, module as JSON."""
    measured: int = 0

    def tell(self, latency_s: float, module) -> None:
        """Takes a measured program; `module` is called for its JSON if it is the best so far."""
        self.measured += 1
        if latency_s < (self.improvements[-1][1] if self.improvements else math.inf):
            self.improvements.append((time.perf_counter() - self.start, latency_s, module()))


class Watched:
    """An executor that tells a curve what it measures."""

    def __init__(self, pool, curve):
        self.pool, self.curve = pool, curve

    def measure(self, jobs):
        outcomes = self.pool.measure(jobs)
        for job, outcome in zip(jobs, outcomes, strict=True):
            self.curve.tell(outcome.latency_s, lambda job=job: job.module)
        return outcomes


@derived_object
class CurveCallback(ms.measure_callback.PyMeasureCallback):
    """Tells a curve what MetaSchedule measures."""

    def __init__(self, curve):
        super().__init__()
        self.curve = curve

    def apply(self, task_scheduler, task_id, measure_candidates, builder_results, runner_results):
        for candidate, result in zip(measure_candidates, runner_results, strict=True):
            latency_s = statistics.fmean(float(s) for s in result.run_secs) if result.run_secs else math.inf
            self.curve.tell(latency_s, lambda candidate=candidate: tvm.ir.save_json(candidate.sch.mod))


@derived_object
class ModuleBuilder(ms.builder.PyBuilder):
    """Leaves modules as they are for a runner that builds them itself."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.count = Path(folder), 0

    def build(self, build_inputs):
        results = []
        for each in build_inputs:
            self.count += 1
            path = self.folder / f"{self.count}.json"
            path.write_text(tvm.ir.save_json(each.mod))
            results.append(ms.builder.BuilderResult(str(path), None))
        return results


@derived_object
class PoolRunner(ms.runner.PyRunner):
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


def tune_foretune(task, target, trials, checkpoint, config) -> Curve:
    curve = Curve()
    model = PretrainedCostModel.load(checkpoint)
    with WorkerPool(target) as pool:
        search_one_shot(task, target, model, Watched(pool, curve), config)
    return curve


def tune_stock(task, target, trials, *, fast: bool, strategy: str = "evolutionary") -> Curve:
    curve = Curve()
    with tempfile.TemporaryDirectory() as folder:
        settings = {"strategy": strategy, "cost_model": "xgb" if strategy == "evolutionary" else "random"}
        callbacks = [CurveCallback(curve), *ms.measure_callback.MeasureCallback.create("default")]
        settings |= {"max_trials_global": trials, "measure_callbacks": callbacks}
        if not fast:
            ms.tune_tir(task.mod, target, folder, **settings)
            return curve
        with WorkerPool(target) as pool:
            ms.tune_tir(
                task.mod, target, folder, builder=ModuleBuilder(folder), runner=PoolRunner(pool), **settings
            )
    return curve


def tuners(checkpoint):
    """Name of each tuner and the function of a task, a target and a number of trials that runs it."""
    return {
        "foretune": lambda *run: tune_foretune(*run, checkpoint, OneShotConfig()),
        "evolution": lambda *run: tune_foretune(*run, checkpoint, OneShotConfig(strategy="evolutionary")),
        "stock": lambda *run: tune_stock(*run, fast=False),
        "stock_measured_by_foretune": lambda *run: tune_stock(*run, fast=True),
        "random": lambda *run: tune_stock(*run, fast=True, strategy="replay-trace"),
    }


def tasks_of(names, target):
    """Yields the name and task of each argument of --tasks."""
    networks = {}
    for name in names:
        source, _, place = name.partition(":")
        if source in te_workload.CONFIGS:
            function = te_workload.create_te_workload(source, int(place or 0))
            yield f"{source}-{place or 0}", as_task(as_task_module(function))
            continue
        if source not in networks:
            found = extract_tasks(to_relax(load_network(source), target), target, source)
            networks[source] = sorted(found, key=lambda task: -task.weight * task.flops)
        chosen = range(len(networks[source])) if place == "all" else [int(place or 0)]
        for number in chosen:
            yield f"{source}-{number}", networks[source][number]


def time_in_turns(modules, target):
    """Median latency in seconds of each module over `ROUNDS` turns."""
    samples = [[] for _ in modules]
    config = MeasureConfig(repeats=5, groups=2, budget_s=1.0)
    with WorkerPool(target, config, workers=1) as pool:
        for _ in range(ROUNDS):
            for number, module in enumerate(modules):
                samples[number].append(pool.measure([MeasureJob(module)])[0].latency_s)
    return [statistics.median(values) for values in samples]


def measure_task(task, target, chosen, trials, number):
    """The result of one task: the chosen tuners in an order that alternates from task to task."""
    curves = {}
    for name in list(chosen)[:: -1 if number % 2 else 1]:
        curve = chosen[name](task, target, trials)
        seconds = time.perf_counter() - curve.start
        curves[name] = (curve, seconds)
        best = curve.improvements[-1][1] if curve.improvements else math.inf
        print(f"  {name}: {seconds:.1f} s, {curve.measured} measured, best {best * 1e3:.4f} ms", flush=True)
    flat = [(name, *step) for name, (curve, _) in curves.items() for step in curve.improvements]
    latencies = iter(time_in_turns([module for *_, module in flat], target))
    result = {
        name: {"seconds": seconds, "measured": curve.measured, "curve": []}
        for name, (curve, seconds) in curves.items()
    }
    for name, at_s, own_s, _ in flat:
        result[name]["curve"].append({"at_s": at_s, "measured_s": own_s, "latency_s": next(latencies)})
    return result


def summary_of(rows):
    """Of each tuner beside stock: time to finish, time to what stock ends with, latency; geometric means."""
    found = {}
    for name in sorted({name for row in rows for name in row["tuners"]} - {"stock"}):
        both = [row["tuners"] for row in rows if {"stock", name} <= row["tuners"].keys() and _ran(row, name)]
        if not both:
            continue
        shorter = [pair["stock"]["seconds"] / pair[name]["seconds"] for pair in both]
        latency = [_final(pair["stock"]) / _final(pair[name]) for pair in both]
        reached = [_time_to(pair[name], _final(pair["stock"])) for pair in both]
        found[name] = {
            "tasks": len(both),
            "time_ratio": geometric_mean(shorter),
            "least_time_ratio": min(shorter),
            "latency_ratio": geometric_mean(latency),
            "least_latency_ratio": min(latency),
            "tasks_that_reach_stock": sum(seconds is not None for seconds in reached),
            "time_ratio_to_reach_stock": geometric_mean(
                [
                    pair["stock"]["seconds"] / seconds
                    for pair, seconds in zip(both, reached, strict=True)
                    if seconds is not None
                ]
            ),
        }
    return found


def _ran(row, name):
    return all(row["tuners"][tuner]["curve"] for tuner in ("stock", name))


def _final(tuner):
    """Latency of the program that the tuner took for its best."""
    return tuner["curve"][-1]["latency_s"]


def _time_to(tuner, latency_s):
    """Seconds after which its best was at least as fast, None where it never was."""
    return next((step["at_s"] for step in tuner["curve"] if step["latency_s"] <= latency_s), None)


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=["resnet18:all"], metavar="SOURCE:NUMBER")
    parser.add_argument("--tuners", nargs="+", choices=tuners(""), default=["foretune", "stock"])
    parser.add_argument("--trials", type=int, default=1000, help="of each tuner but foretune's (%(default)s)")
    parser.add_argument("--checkpoint", default="cpu")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()

    target = parse_target("llvm")
    load_tensor_intrinsics()  # no tuner pays for this import
    chosen = {name: run for name, run in tuners(arguments.checkpoint).items() if name in arguments.tuners}
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for number, (name, task) in enumerate(tasks_of(arguments.tasks, target)):
        path = arguments.out / f"{name.replace('/', '_')}-{arguments.trials}.json"
        if not path.is_file():
            print(f"{name}: {task.name}", flush=True)
            row = {"name": name, "task": task.name, "weight": task.weight, "gflop": task.flops / 1e9}
            row |= {"target": str(target), "trials": arguments.trials, "checkpoint": arguments.checkpoint}
            row["tuners"] = measure_task(task, target, chosen, arguments.trials, number)
            path.write_text(json.dumps(row, indent=1) + "\n")
        rows.append(json.loads(path.read_text()))
        print(json.dumps(summary_of(rows[-1:])), flush=True)
    summary = summary_of(rows)
    (arguments.out / f"summary-{arguments.trials}.json").write_text(json.dumps(summary, indent=2) + "\n")
    for name, figures in summary.items():
        print(
            f"{name}, by geometric means of {figures['tasks']} tasks: stock takes "
            f"{figures['time_ratio']:.1f}x its time for {figures['latency_ratio']:.2f}x its latency"
        )
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
