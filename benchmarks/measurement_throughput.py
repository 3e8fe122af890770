"""Candidates per second: foretune's worker pool against MetaSchedule's LocalBuilder and LocalRunner.

    python -m benchmarks.measurement_throughput

Both measure the same random candidates of the same tasks sequentially in one run, in alternating order. The
tasks are a convolution of ResNet-18, one of MobileNet's, a linear layer of BERT-base and a product of its
attention.
"""

from __future__ import annotations

import statistics
import time

from foretune.compiler.operators import BatchMatmul, Conv2d, Dense, DepthwiseConv2d, to_task
from foretune.compiler.replay import candidate_module_json
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.measure import MeasureJob, WorkerPool
from foretune.dataset.sampling.programs import RandomSampler, SamplerSetting
from tvm.s_tir import meta_schedule as ms

from .common import argument_parser, start, this_machine, write_result

WINDOW = {"batch": 1, "kernel": 3, "padding": 1}
TASKS = {
    "conv2d": Conv2d(
        in_channels=64, out_channels=64, height=56, width=56, stride=1, epilogue="bias_relu", **WINDOW
    ),
    "depthwise_conv2d": DepthwiseConv2d(
        in_channels=96, height=112, width=112, stride=2, epilogue="bias_relu6", **WINDOW
    ),
    "dense": Dense(rows=128, in_features=768, out_features=768, epilogue="bias"),
    "batch_matmul": BatchMatmul(batch=12, rows=128, inner=64, columns=128),
}
SMALL = Dense(rows=8, in_features=8, out_features=8)


def stock_seconds(candidates, target, builder, runner):
    """Seconds that the stock builder and runner need, and the number of candidates with a latency."""
    start = time.perf_counter()
    built = builder.build([ms.builder.BuilderInput(c.sch.mod, target) for _, c in candidates])
    inputs = [
        ms.runner.RunnerInput(b.artifact_path, "cpu", c.args_info)
        for b, (_, c) in zip(built, candidates, strict=True)
        if b.error_msg is None
    ]
    results = [future.result() for future in runner.run(inputs)]
    return time.perf_counter() - start, sum(r.error_msg is None for r in results)


def foretune_seconds(candidates, pool):
    """The same for the worker pool."""
    start = time.perf_counter()
    outcomes = pool.measure([MeasureJob(candidate_module_json(c)) for _, c in candidates])
    return time.perf_counter() - start, sum(o.failure is None for o in outcomes)


def speed(row):
    """Valid candidates per second of foretune over stock's."""
    return (row["foretune_valid"] / row["foretune_s"]) / (row["stock_valid"] / row["stock_s"])


def main() -> None:
    parser = argument_parser(__name__)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--candidates", type=int, default=16, help="random candidates of each task")
    arguments = parser.parse_args()

    begun, target = start(), parse_target("llvm")
    builder, runner = ms.builder.LocalBuilder(timeout_sec=120.0), ms.runner.LocalRunner(timeout_sec=30.0)
    rows = []
    with WorkerPool(target) as pool:
        # A pool lives longer than a batch, so its start does not count towards one.
        foretune_seconds(
            RandomSampler(SamplerSetting(to_task(SMALL), target, per_round=1, seed=0)).propose(), pool
        )
        for number, name in enumerate(arguments.tasks):
            task = to_task(TASKS[name])
            sampler = RandomSampler(SamplerSetting(task, target, per_round=arguments.candidates, seed=0))
            candidates = sampler.propose()
            sides = {
                "stock": lambda candidates=candidates: stock_seconds(candidates, target, builder, runner),
                "foretune": lambda candidates=candidates: foretune_seconds(candidates, pool),
            }
            row = {"task": task.name, "candidates": len(candidates)}
            for side in sorted(sides, reverse=number % 2 == 0):
                row[f"{side}_s"], row[f"{side}_valid"] = sides[side]()
            rows.append(row)
            print(f"{task.name}: {speed(row):.1f}x", flush=True)
    print(f"median: {statistics.median(map(speed, rows)):.1f}x the valid candidates a second")
    write_result("measurement_throughput", {"tasks": rows}, begun, this_machine(), results=arguments.out)


if __name__ == "__main__":
    main()
