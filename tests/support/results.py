"""A small result of a tuning run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from foretune.inference.run.result import EAGER, TUNED, UNTUNED, Contestant, TaskResult, TuneResult


def make_task(name: str = "fused_conv2d_add_relu", **changes: Any) -> TaskResult:
    """A small task: 10 ms before, 2 ms after, three measured candidates, the last of which failed."""
    task = TaskResult(
        name=name,
        operator="conv2d",
        workload_hash="0123456789abcdef",
        weight=2,
        flops=2e8,
        untuned_latency_s=0.010,
        tuned_latency_s=0.002,
        candidates_scored=512,
        candidates_measured=3,
        candidates_failed=1,
        search_s=4.0,
        measure_s=1.5,
        predicted_scores=[0.9, 0.8, 0.1],
        measured_latencies_s=[0.002, 0.004, math.inf],
    )
    return replace(task, **changes)


def make_contestant(name: str, median_s: float, **changes: Any) -> Contestant:
    samples_s = [0.9 * median_s, median_s, 1.2 * median_s]
    return replace(
        Contestant(
            name, samples_s=samples_s, median_s=median_s, min_s=samples_s[0], ready_s=2.0, peak_mb=250.0
        ),
        **changes,
    )


def make_result(**changes: Any) -> TuneResult:
    """Two tasks, 4 ms and 1 ms of the network's time."""
    second = make_task("fused_dense_add", operator="dense", weight=1, tuned_latency_s=0.001, flops=1e6)
    result = TuneResult(
        network="resnet18",
        target='{"kind":"llvm","tag":"","keys":["cpu"],"num-cores":2,"mcpu":"znver4"}',
        hardware="Sample CPU, 2 cores",
        checkpoint="cpu-base",
        settings={"candidates": 512, "top_k": 64, "seed": 0},
        tasks=[second, make_task()],
        contestants=[
            make_contestant(TUNED, 0.006),
            make_contestant(UNTUNED, 0.030),
            make_contestant(EAGER, 0.003),
        ],
        max_abs_difference=2e-6,
        tolerance=1e-3,
        total_s=20.0,
        stage_s={"import": 4.0, "search": 8.0, "measure": 3.0},
        curve=[(0.0, 0.030), (6.0, 0.020), (12.0, 0.005)],
        versions={"apache-tvm": "0.27.0.post1"},
        started_at="2026-11-20T10:00:00+00:00",
    )
    return replace(result, **changes)


NO_DATA = make_result(tasks=[], contestants=[], curve=[], stage_s={}, total_s=0.0, max_abs_difference=None)
