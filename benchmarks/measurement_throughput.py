"""Candidates a second: foretune's worker pool against MetaSchedule's LocalBuilder and LocalRunner.

Both measure the same candidates of the same tasks in one run, in turns:

    python benchmarks/measurement_throughput.py
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from pathlib import Path

from foretune.dataset.measure import MeasureJob, WorkerPool
from foretune.dataset.networks import extract_tasks, load_network, to_relax
from foretune.dataset.program_sampling import ExplorationConfig, ProgramSampler
from foretune.dataset.replay import candidate_module_json
from foretune.dataset.tvm_compat import parse_target
from tvm.s_tir import meta_schedule as ms

RESULTS = Path(__file__).parent / "results" / "measurement_throughput.json"


def stock_seconds(candidates, target, builder, runner):
    """Seconds that the stock builder and runner take, and how many candidates got a latency."""
    start = time.perf_counter()
    built = builder.build([ms.builder.BuilderInput(c.sch.mod, target) for c in candidates])
    inputs = [
        ms.runner.RunnerInput(b.artifact_path, "cpu", c.args_info)
        for b, c in zip(built, candidates, strict=True)
        if b.error_msg is None
    ]
    results = [future.result() for future in runner.run(inputs)]
    return time.perf_counter() - start, sum(r.error_msg is None for r in results)


def foretune_seconds(candidates, pool):
    """The same for the worker pool."""
    start = time.perf_counter()
    outcomes = pool.measure([MeasureJob(candidate_module_json(c)) for c in candidates])
    return time.perf_counter() - start, sum(o.failure is None for o in outcomes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--network", default="resnet18")
    parser.add_argument("--tasks", type=int, default=4, help="first conv2d tasks of the network")
    parser.add_argument("--candidates", type=int, default=16, help="random candidates of each task")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()

    target = parse_target("llvm")
    tasks = extract_tasks(to_relax(load_network(arguments.network), target), target, arguments.network)
    tasks = [task for task in tasks if task.operator == "conv2d"][: arguments.tasks]
    builder, runner = ms.builder.LocalBuilder(timeout_sec=120.0), ms.runner.LocalRunner(timeout_sec=30.0)
    rows = []
    with WorkerPool(target) as pool:
        for task in tasks:
            sampler = ProgramSampler(
                task,
                target,
                scorer=ms.cost_model.RandomModel(),
                config=ExplorationConfig(),
                per_round=arguments.candidates,
                seed=0,
            )
            candidates = [candidate for _, candidate in sampler.propose()]
            foretune_s, foretune_valid = foretune_seconds(candidates, pool)
            stock_s, stock_valid = stock_seconds(candidates, target, builder, runner)
            rows.append(
                {
                    "task": task.name,
                    "candidates": len(candidates),
                    "stock_s": stock_s,
                    "stock_valid": stock_valid,
                    "foretune_s": foretune_s,
                    "foretune_valid": foretune_valid,
                    "ratio": (foretune_valid / foretune_s) / (stock_valid / stock_s),
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    result = {
        "target": str(target),
        "machine": platform.processor() or platform.machine(),
        "median_ratio": statistics.median(row["ratio"] for row in rows),
        "rows": rows,
    }
    arguments.out.write_text(json.dumps(result, indent=2) + "\n")
    print(f"median ratio of valid candidates a second: {result['median_ratio']:.1f}; wrote {arguments.out}")


if __name__ == "__main__":
    main()
