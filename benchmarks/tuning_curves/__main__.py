"""Latency over time: foretune's search against stock MetaSchedule, sequentially on the same tasks.

    python -m benchmarks.tuning_curves
    python -m benchmarks.tuning_curves --tasks resnet18:0 bert_base:0@256 GMM:0 --runs 6
    python -m benchmarks.tuning_curves --tuners foretune random --variant parts

A task is either a task of a network, by its position in the order of their shares of the operations, or an
operator of TVM's `te_workload` with the number of its configuration. An @ precedes the trials of
MetaSchedule's tuners, if they differ from --trials. The tuners:

- foretune: `foretune.inference.tune_tasks` with its defaults
- foretune_longer: the same with twice its rounds and measurements
- evolution: the same without the draft model
- stock: MetaSchedule's own search, with XGBoost retrained during it, LocalBuilder and LocalRunner
- stock_measured_by_foretune: the same search with foretune's measurement
- random: random programs of the same space with foretune's measurement

Ratios are relative to stock, or without it to stock_measured_by_foretune: on a slow machine, the imports of
stock's workers use up the 30 s that a build may take.

Each clock starts before the model is loaded or the first process started. The best programs of each tuner
over time are kept. At the end, one evaluator times all programs of a task in turns, so that no tuner's own
measurement decides. It flushes caches before each run, as in a network where other operators ran before. It
also times the last program of each run with warm caches, as LocalRunner leaves them. For foretune, only the
last program is known.

Foretune's runs are kept in `outputs/benchmarks/tuning_curves` until the commit changes. MetaSchedule's runs,
which are long, are kept in `benchmarks/results/tuning_curves/<machine>/programs`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import tvm
from foretune.compiler.networks import AS_FASTEST, Lowering
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import load_tensor_intrinsics, parse_target
from tvm.target import Target

from ..checkouts import commit_of
from ..common import RESULTS, ROOT, argument_parser, kept_run, machine_name, start, this_machine, write_result
from ..tasks import TEN, is_operator, tasks_named, time_in_turns
from .beside import beside
from .tuners import FORETUNE, METASCHEDULE, TUNERS, Run, run_foretune, run_metaschedule


def metaschedule_settings(tuner: str, trials: int) -> dict[str, Any]:
    """JSON values that determine a run of MetaSchedule, in addition to target, machine and seed."""
    return {**METASCHEDULE[tuner], "max_trials_global": trials, "tvm": tvm.__version__}


def runs_of(
    arguments: argparse.Namespace, name: str, task: Task, trials: int, settled: Mapping[str, Any]
) -> dict[str, list[Run]]:
    """Kept or new runs of each tuner, grouped by seed."""
    file = arguments.runs_in.resolve() / "tasks" / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(tvm.ir.save_json(task.mod))
    target = parse_target(settled["target"])
    found: dict[str, list[Run]] = {}
    for tuner in arguments.tuners:
        online = tuner in METASCHEDULE
        for seed in range(arguments.stock_runs if online else arguments.runs):
            settings = {**settled, "seed": seed}
            stem = f"{name}-{task.workload_hash[:8]}-{tuner}"
            if online:
                settings |= metaschedule_settings(tuner, trials)
                path = arguments.programs / f"{stem}-{trials}-{seed}.json.xz"
                make = partial(run_metaschedule, tuner, task, target, trials, seed)
            else:
                settings |= {"search": FORETUNE[tuner], "commit": commit_of(ROOT)}
                path = arguments.runs_in / "runs" / f"{stem}-{seed}.json"
                make = partial(run_foretune, tuner, file, seed)
            run = kept_run(path, settings, make, again=arguments.again)
            found.setdefault(tuner, []).append({"seed": seed, **run})
            best = f"{1e3 * run['steps'][-1][1]:.4f} ms" if run["steps"] else "no program"
            print(f"{name}, {tuner}, seed {seed}: {run['seconds']:.1f} s, {best}", flush=True)
    return found


def with_latencies(
    runs: Mapping[str, Sequence[Run]], target: Target, *, warm: bool = True
) -> dict[str, list[dict[str, Any]]]:
    """The runs with `cold_s`, `warm_s` and a `curve` of (seconds, cold latency) instead of their programs.

    A program that is far from the best is not timed again and keeps its tuner's latency.
    """
    last = sorted({run["steps"][-1][2] for each in runs.values() for run in each if run["steps"]})
    every = sorted(
        {step[2] for each in runs.values() for run in each for step in run["steps"] if step[2] is not None}
    )
    cold_s = dict(zip(every, time_in_turns(every, target, flush=True), strict=True))
    warm_s = dict(zip(last, time_in_turns(last, target, flush=False), strict=True)) if warm else {}

    def timed(run: Run) -> dict[str, Any]:
        curve = [(at_s, cold_s.get(module, own_s)) for at_s, own_s, module in run["steps"]]
        module = run["steps"][-1][2] if run["steps"] else None
        ends = {"cold_s": cold_s.get(module), "warm_s": warm_s.get(module), "curve": curve}
        return {"seed": run["seed"], "seconds": run["seconds"], "measured": run["measured"], **ends}

    return {name: [timed(run) for run in each] for name, each in runs.items()}


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--tasks", nargs="+", default=TEN, metavar="SOURCE:NUMBER@TRIALS", help="(ten tasks)")
    add("--tuners", nargs="+", choices=TUNERS, default=["stock", "foretune"])
    add("--trials", type=int, default=1000, help="of MetaSchedule's tuners (%(default)s)")
    add("--runs", type=int, default=6, help="seeds of foretune's tuners (%(default)s)")
    add("--stock-runs", type=int, default=1, help="those of MetaSchedule's (%(default)s)")
    add("--as-exported", action="store_true", help="networks channels first, weights as they come")
    add("--again", action="store_true", help="run anew what is kept")
    add("--runs-in", type=Path, default=Path("outputs/benchmarks/tuning_curves"), help="(%(default)s)")
    add("--programs", type=Path, help="where MetaSchedule's runs are kept")
    add("--variant", default="", help="suffix of the result's folder")
    return parser.parse_args(words)


def main() -> None:
    arguments = arguments_of()
    begun, target, hardware = start(), parse_target("llvm"), this_machine()
    machine = machine_name(vars(hardware))
    arguments.programs = arguments.programs or RESULTS / "tuning_curves" / machine / "programs"
    load_tensor_intrinsics()  # imported here, so that it counts for no tuner
    lowering = Lowering(channels_last=False, prepack=False) if arguments.as_exported else AS_FASTEST
    settled = {"target": str(target), "machine": hardware.hardware_id}
    rows: dict[str, Any] = {}
    for word in arguments.tasks:
        source, _, own_trials = word.partition("@")
        trials = int(own_trials or arguments.trials)
        for name, task in tasks_named([source], target, lowering):
            runs = runs_of(arguments, name, task, trials, settled)
            rows[name] = {
                "task": task.name,
                "gflop": task.flops / 1e9,
                "trials": trials,
                "as_exported": None if is_operator(name.rpartition("-")[0]) else arguments.as_exported,
                "runs": with_latencies(runs, target),
            }
            if len(runs) > 1 and "foretune" in runs:
                one = beside(rows[name])
                print(
                    f"{name}: 1/{one.less_time:.0f} of stock's time for {one.cold:.2f}x its speed", flush=True
                )
    write_result(
        "tuning_curves", {"tasks": rows}, begun, hardware, variant=arguments.variant, results=arguments.out
    )


if __name__ == "__main__":
    main()
