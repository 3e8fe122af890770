"""Latency against time: foretune's search beside stock MetaSchedule on the same tasks, one after the other.

    python benchmarks/tuning_curves.py --tasks resnet18:0 bert_base:0@256 GMM:0 --trials 1000
    python benchmarks/tuning_curves.py --tasks resnet18:all --tuners foretune stock --trials 64

A task is one of a network, by its place in the order of its share of the operations, or an operator of TVM's
`te_workload` with the number of its configuration; behind an @ stand the trials of MetaSchedule's tuners,
where they are not those of --trials. The tuners:

- foretune: one search with the shipped model and its validation, by the defaults of `foretune-tune`
- foretune_longer: the same with four times the measurements, in twelve rounds in place of one
- evolution: the first without the draft model
- stock: MetaSchedule's own search, XGBoost retrained on the way, LocalBuilder and LocalRunner
- stock_measured_by_foretune: the same search with foretune's measurement: what that part brings alone
- random: random programs of the same space with foretune's measurement

Ratios are to stock, or where it is not run to stock_measured_by_foretune: on a slow machine stock's workers
spend all of the 30 s that a build may take on their imports.

Each clock runs from before the model is loaded or the first process started. Whenever a tuner finds a program
that it takes for its best, the program is kept, in --programs; at the end the programs of a task are timed in
turns by one evaluator, so that no tuner's own measurement decides: with caches flushed before each run, as in
a network where other operators ran before, or with --warm as LocalRunner leaves them. A run that is kept is
not run again unless its settings or a checkpoint change: stop it and go on as you like. Where the search
itself has changed, --again runs it anew. Each machine keeps its own. What is kept of tuners that are not
asked for is shown, too.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from curve_page import TUNERS, stock_of, write_page
from curve_tuners import Tuner, tuners
from foretune.dataset.measure import MeasureConfig, MeasureJob, WorkerPool
from foretune.dataset.networks import AS_FASTEST, Lowering, extract_tasks, load_network, to_relax
from foretune.dataset.target_hardware import target_hardware
from foretune.dataset.task import Task
from foretune.dataset.tvm_compat import as_task_module, load_tensor_intrinsics, parse_target
from foretune.inference.api import as_task
from tvm.s_tir.meta_schedule.testing import te_workload
from tvm.target import Target

RESULTS = Path(__file__).parent / "results" / "tuning_curves"
PROGRAMS = RESULTS / "programs"

TURNS = 11
"""How often each kept program is timed at the end."""

TIMED_WITHIN = 1.5
"""A program that its tuner measured at more than so many times its best is not timed again."""

Run = dict[str, Any]
"""`settings`, `seconds`, `measured` and `steps` of one run: see `Curve.improvements`."""


def largest_first(network: str, target: Target, lowering: Lowering = AS_FASTEST) -> list[Task]:
    """The tasks of a network in the order of their share of its operations."""
    found = extract_tasks(to_relax(load_network(network), target, lowering), target, network)
    return sorted(found, key=lambda task: -task.weight * task.flops)


def tasks_of(
    names: Sequence[str], target: Target, trials: int, lowering: Lowering = AS_FASTEST
) -> Iterator[tuple[str, Task, int]]:
    """Yields the name, task and trials of each argument of --tasks; `trials` where it has none of its own."""
    networks: dict[str, list[Task]] = {}
    for name in names:
        name, _, own_trials = name.partition("@")
        count = int(own_trials or trials)
        source, _, place = name.partition(":")
        if source in te_workload.CONFIGS:
            function = te_workload.create_te_workload(source, int(place or 0))
            yield f"{source}-{place or 0}", as_task(as_task_module(function)), count
            continue
        if source not in networks:
            networks[source] = largest_first(source, target, lowering)
        chosen = range(len(networks[source])) if place == "all" else [int(place or 0)]
        for number in chosen:
            yield f"{source}-{number}", networks[source][number], count


def kept_run(path: Path, settings: Mapping[str, Any]) -> Run | None:
    """The run of an earlier call, None where it was none with these settings."""
    run: Run | None = json.loads(lzma.decompress(path.read_bytes())) if path.is_file() else None
    return run if run is not None and run["settings"] == settings else None


def made_run(path: Path, tuner: Tuner, task: Task, target: Target, settings: Mapping[str, Any]) -> Run:
    """Runs a tuner and keeps the run."""
    curve = tuner.run(task, target, settings["seed"])
    seconds = time.perf_counter() - curve.start
    run = {"settings": settings, "seconds": seconds, "measured": curve.measured, "steps": curve.improvements}
    best = curve.improvements[-1][1] if curve.improvements else math.inf
    print(f"  {path.name}: {seconds:.1f} s, {curve.measured} measured, best {best * 1e3:.4f} ms", flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(json.dumps(run).encode()))
    return run


def time_in_turns(modules: Sequence[str], target: Target, cache_flush: bool = True) -> list[float]:
    """Median latency in seconds of each module over `TURNS` turns."""
    samples: list[list[float]] = [[] for _ in modules]
    config = MeasureConfig(repeats=5, groups=2, budget_s=0.5, cache_flush=cache_flush)
    with WorkerPool(target, config, workers=1) as pool:
        for _ in range(TURNS):
            for number, module in enumerate(modules):
                outcome = pool.measure([MeasureJob(module, keep_built=True)])[0]
                samples[number].append(outcome.latency_s)
    return [statistics.median(values) for values in samples]


def with_latencies(
    runs: Mapping[str, Sequence[Run]], target: Target, cache_flush: bool
) -> dict[str, list[Run]]:
    """The runs of each tuner with a `curve` in place of their programs: `at_s`, `measured_s`, `latency_s`.

    A program that is far from the best is not timed again: its latency is as its tuner measured it.
    """
    every = [run["steps"] for each in runs.values() for run in each if run["steps"]]
    # The last step is the best; tuners differ in how they measure, so that each has a bound of its own.
    timed = {module for steps in every for _, own_s, module in steps if own_s <= TIMED_WITHIN * steps[-1][1]}
    modules = sorted(timed)
    latency_s = dict(zip(modules, time_in_turns(modules, target, cache_flush), strict=True))
    return {
        name: [
            {
                "seed": run["settings"]["seed"],
                "seconds": run["seconds"],
                "measured": run["measured"],
                "curve": [
                    {"at_s": at_s, "measured_s": own_s, "latency_s": latency_s.get(module, own_s)}
                    for at_s, own_s, module in run["steps"]
                ],
            }
            for run in each
        ]
        for name, each in runs.items()
    }


def summary_of(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of each tuner beside stock: times and latencies of medians of runs, by geometric means of tasks."""
    found = {}
    for name in sorted({name for row in rows for name in row["tuners"]} - set(map(stock_of, rows))):
        tasks = {
            row["name"]: beside_stock(row["tuners"][name], row["tuners"][stock_of(row)])
            for row in rows
            if name in row["tuners"]
        }
        reached = [of["time_ratio_to_reach_stock"] for of in tasks.values()]
        found[name] = {
            "tasks": tasks,
            "time_ratio": geometric_mean([of["time_ratio"] for of in tasks.values()]),
            "latency_ratio": geometric_mean([of["latency_ratio"] for of in tasks.values()]),
            "least_latency_ratio": min(of["latency_ratio"] for of in tasks.values()),
            "tasks_that_reach_stock": sum(ratio is not None for ratio in reached),
            "time_ratio_to_reach_stock": geometric_mean([ratio for ratio in reached if ratio is not None]),
            "networks": networks_beside_stock(rows, name),
        }
    return found


def networks_beside_stock(rows: Sequence[dict[str, Any]], tuner: str) -> dict[str, Any]:
    """Ratios of stock to a tuner by network, of which at least two tasks were tuned, as sums over these.

    A task's latency counts as often as the network calls it, its tuning time once.
    """
    networks: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        source = row["name"].rpartition("-")[0]
        if source not in te_workload.CONFIGS and tuner in row["tuners"]:
            networks.setdefault(source, []).append(row)

    def sums(tasks: Sequence[dict[str, Any]], which: str | None = None) -> tuple[float, float]:
        of = [(row["weight"], row["tuners"][which or stock_of(row)]) for row in tasks]
        return (
            sum(_median_seconds(runs) for _, runs in of),
            sum(calls * statistics.median(map(_final, runs)) for calls, runs in of),
        )

    found = {}
    for network, tasks in networks.items():
        if len(tasks) < 2:
            continue
        (stock_s, stock_latency_s), (own_s, own_latency_s) = sums(tasks), sums(tasks, tuner)
        found[network] = {
            "tasks": len(tasks),
            "time_ratio": stock_s / own_s,
            "latency_ratio": stock_latency_s / own_latency_s,
            "latency_s": own_latency_s,
            "stock_latency_s": stock_latency_s,
        }
    return found


def beside_stock(runs: Sequence[Run], stock: Sequence[Run]) -> dict[str, Any]:
    """Ratios of stock's median to a tuner's, above 1 where the tuner is better.

    `time_ratio_to_reach_stock` is of all of stock's time and the median time to a program that is as fast as
    its last, `and_its_own` of the time that stock took to that program itself; None where fewer than half of
    the runs found one.
    """
    final_s = statistics.median(_final(run) for run in stock)
    reached = sorted(_time_to(run, final_s) for run in runs)
    median_s = statistics.median_high(reached)
    own_s = statistics.median(run["curve"][-1]["at_s"] for run in stock)
    found = math.isfinite(median_s)
    return {
        "runs": len(runs),
        "time_ratio": _median_seconds(stock) / _median_seconds(runs),
        "latency_ratio": final_s / statistics.median(_final(run) for run in runs),
        "runs_that_reach_stock": sum(map(math.isfinite, reached)),
        "time_ratio_to_reach_stock": _median_seconds(stock) / median_s if found else None,
        "and_its_own": own_s / median_s if found else None,
    }


def _median_seconds(runs: Sequence[Run]) -> float:
    return statistics.median(run["seconds"] for run in runs)


def _final(run: Run) -> float:
    """Latency of the program that the tuner took for its best, inf where none ran."""
    return run["curve"][-1]["latency_s"] if run["curve"] else math.inf


def _time_to(run: Run, latency_s: float) -> float:
    """Seconds after which its best was at least as fast, inf where it never was."""
    return next((step["at_s"] for step in run["curve"] if step["latency_s"] <= latency_s), math.inf)


def geometric_mean(values: Sequence[float]) -> float | None:
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=["resnet18:all"], metavar="SOURCE:NUMBER")
    parser.add_argument("--tuners", nargs="+", choices=TUNERS, default=["stock", "foretune"])
    parser.add_argument("--again", action="store_true", help="run these also where their runs are kept")
    parser.add_argument("--trials", type=int, default=1000, help="of MetaSchedule's tuners (%(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="seeds of foretune's tuners (%(default)s)")
    parser.add_argument("--stock-runs", type=int, default=1, help="those of MetaSchedule's (%(default)s)")
    parser.add_argument(
        "--as-exported", action="store_true", help="channels first, and weights as they are, in networks"
    )
    parser.add_argument("--warm", action="store_true", help="time without flushing caches between runs")
    parser.add_argument("--checkpoint", default="cpu")
    parser.add_argument("--programs", type=Path, default=PROGRAMS, help="where runs are kept (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()

    target = parse_target("llvm")
    load_tensor_intrinsics()  # no tuner pays for this import
    machine = target_hardware(target)
    programs = arguments.programs / machine.hardware_id
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = []
    lowering = Lowering(channels_last=False, prepack=False) if arguments.as_exported else AS_FASTEST
    for name, task, trials in tasks_of(arguments.tasks, target, arguments.trials, lowering):
        print(f"{name}: {task.name}", flush=True)
        every = tuners(arguments.checkpoint, trials)
        settled = {"target": str(target), "machine": machine.hardware_id}
        runs = {}
        for which, tuner in every.items():
            online = "max_trials_global" in tuner.settings
            stem = f"{name}-{task.workload_hash[:8]}-{which}" + (f"-{trials}" if online else "")
            wanted = {
                programs / f"{stem}-{seed}.json.xz": tuner.settings | settled | {"seed": seed}
                for seed in range(arguments.stock_runs if online else arguments.runs)
            }
            again = arguments.again and which in arguments.tuners
            kept = {path: None if again else kept_run(path, of) for path, of in wanted.items()}
            if which in arguments.tuners or all(kept.values()):
                runs[which] = [
                    kept[path] or made_run(path, tuner, task, target, of) for path, of in wanted.items()
                ]
        row = {"name": name, "task": task.name, "weight": task.weight, "gflop": task.flops / 1e9}
        row |= {"workload": task.workload_hash, "lowering": asdict(lowering)}
        row |= {"target": str(target), "machine": machine.name, "trials": trials}
        row["caches"] = "warm" if arguments.warm else "flushed"
        row["settings"] = {which: every[which].settings for which in runs}
        row["tuners"] = with_latencies(runs, target, cache_flush=not arguments.warm)
        path = arguments.out / f"{name}-{trials}.json"
        path.write_text(json.dumps(row, indent=1) + "\n")
        rows.append(row)
        if stock_of(row) in runs:
            print(json.dumps(summary_of([row]), indent=1), flush=True)
    if all(stock_of(row) in row["tuners"] for row in rows):
        summary = summary_of(rows)
        (arguments.out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
        write_page(rows, summary, arguments.out / "curves.html")
        for name, of in summary.items():
            said = {f"{name}, geometric means of {len(of['tasks'])} tasks": of}
            for network, ratios in of["networks"].items():
                said[f"{name}, {ratios['tasks']} tasks of {network} by calls"] = ratios
            for what, ratios in said.items():
                print(
                    f"{what}: stock takes {ratios['time_ratio']:.1f}x its time "
                    f"for {ratios['latency_ratio']:.2f}x its latency"
                )
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
