"""ResNet-18's convolutions: one One-Shot search each against stock MetaSchedule (XGBoost, 64 trials).

For each task, in one run, both tuners work one after the other (who goes first alternates); then the best
program of each is timed in turns by the same evaluator, so that no tuner's own measurement decides.

    python benchmarks/against_stock.py --checkpoint cpu
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import tvm
from foretune.dataset.measure import MeasureConfig, MeasureJob, WorkerPool
from foretune.dataset.networks import extract_tasks, load_network, to_relax
from foretune.dataset.tvm_compat import load_tensor_intrinsics, parse_target
from foretune.inference import PretrainedCostModel
from foretune.inference.one_shot import OneShotConfig, search_one_shot
from tvm.s_tir import meta_schedule as ms

RESULTS = Path(__file__).parent / "results" / "against_stock.json"


def tune_stock(task, target, trials):
    """(seconds, scheduled module as JSON) of stock MetaSchedule with its defaults."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        database = ms.tune_tir(
            task.mod, target, folder, max_trials_global=trials, num_trials_per_iter=trials, cost_model="xgb"
        )
        seconds = time.perf_counter() - start
        best = database.query_ir_module(task.mod, target, "main")
    return seconds, tvm.ir.save_json(best)


def tune_foretune(task, target, model, pool, config):
    """(seconds, scheduled module as JSON) of one search with the frozen model."""
    start = time.perf_counter()
    result = search_one_shot(task, target, model, pool, config)
    return time.perf_counter() - start, result.best.proposal.module


def time_in_turns(modules, target, rounds=7):
    """Median latency in seconds of each module, timed in turns."""
    samples = [[] for _ in modules]
    with WorkerPool(target, MeasureConfig(repeats=10, groups=2, budget_s=1.0), workers=1) as pool:
        for _ in range(rounds):
            for number, module in enumerate(modules):
                samples[number].append(pool.measure([MeasureJob(module)])[0].latency_s)
    return [statistics.median(values) for values in samples], samples


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--network", default="resnet18")
    parser.add_argument("--checkpoint", default="cpu")
    parser.add_argument("--trials", type=int, default=64, help="trials a task of stock MetaSchedule")
    parser.add_argument("--tasks", type=int, default=None, help="only the first so many conv2d tasks")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()

    target = parse_target("llvm")
    load_tensor_intrinsics()  # neither tuner pays for this import
    tasks = extract_tasks(to_relax(load_network(arguments.network), target), target, arguments.network)
    tasks = [task for task in tasks if task.operator == "conv2d"][: arguments.tasks]
    model = PretrainedCostModel.load(arguments.checkpoint)
    config = OneShotConfig()
    rows = []
    for number, task in enumerate(tasks):

        def run_foretune(task=task):
            with WorkerPool(target) as pool:
                pool.measure([])
                return tune_foretune(task, target, model, pool, config)

        def run_stock(task=task):
            return tune_stock(task, target, arguments.trials)

        if number % 2:
            stock_s, stock_module = run_stock()
            foretune_s, foretune_module = run_foretune()
        else:
            foretune_s, foretune_module = run_foretune()
            stock_s, stock_module = run_stock()
        (foretune_latency, stock_latency), samples = time_in_turns([foretune_module, stock_module], target)
        rows.append(
            {
                "task": task.name,
                "weight": task.weight,
                "gflop": task.flops / 1e9,
                "stock_s": stock_s,
                "foretune_s": foretune_s,
                "time_ratio": stock_s / foretune_s,
                "stock_latency_s": stock_latency,
                "foretune_latency_s": foretune_latency,
                "latency_ratio": stock_latency / foretune_latency,
                "samples_s": {"foretune": samples[0], "stock": samples[1]},
            }
        )
        print({key: value for key, value in rows[-1].items() if key != "samples_s"}, flush=True)
        result = {
            "target": str(target),
            "trials": arguments.trials,
            "checkpoint": arguments.checkpoint,
            "search": asdict(config),
            "geomean_time_ratio": geometric_mean(row["time_ratio"] for row in rows),
            "geomean_latency_ratio": geometric_mean(row["latency_ratio"] for row in rows),
            "weighted_latency_ratio": sum(r["weight"] * r["stock_latency_s"] for r in rows)
            / sum(r["weight"] * r["foretune_latency_s"] for r in rows),
            "tasks_at_least_equal": sum(row["latency_ratio"] >= 1.0 for row in rows),
            "rows": rows,
        }
        arguments.out.write_text(json.dumps(result, indent=2) + "\n")
    print(
        f"stock takes {result['geomean_time_ratio']:.1f}x the time; its latency is "
        f"{result['geomean_latency_ratio']:.2f}x ours (geometric means); wrote {arguments.out}"
    )


if __name__ == "__main__":
    main()
