"""Planners and shared surrogates on a device, and foresee tuning of stock's search beside stock's scheduler.

Every run begins with an empty database. Runs take turns: a slow hour of the machine is no contestant's own.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from foretune.dataset.networks import AS_FASTEST, extract_tasks, load_network, to_relax
from foretune.dataset.task import Task
from foretune.dataset.tvm_compat import load_tensor_intrinsics, make_tune_context, parse_target
from foretune.inference import FamilyCostModel, FamilyTaskScheduler, prepare_builder
from foretune.inference.tuning_database import opened_database
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from ..common import ROOT, in_turns, this_machine
from ..networks.runs import tune

NETWORKS = ("resnet18", "mobilenetv2", "bert_base")

SEARCHES = {
    "shares": [],
    "gradient": ["search/planner=gradient"],
    "foresee": ["search/planner=foresee"],
    "headroom": ["search/planner=headroom"],
    "shares, shared": ["search.share_surrogate=true"],
    "foresee, shared": ["search/planner=foresee", "search.share_surrogate=true"],
    "headroom, shared": ["search/planner=headroom", "search.share_surrogate=true"],
    "shares, reuse": ["search.reuse=auto"],
    "shares, reuse, shared": ["search.reuse=auto", "search.share_surrogate=true"],
    "headroom, reuse, shared": [
        "search/planner=headroom",
        "search.reuse=auto",
        "search.share_surrogate=true",
    ],
}
"""Overrides of `foretune tune` by name."""

STOCK: dict[str, Callable[[], dict[str, Any]]] = {
    "stock, gradient": lambda: {"task_scheduler": "gradient", "cost_model": "xgb"},
    "stock, foresee": lambda: {"task_scheduler": FamilyTaskScheduler(), "cost_model": FamilyCostModel()},
}
"""Arguments of `ms.tune_tasks` by name."""

TRIALS_A_TASK = 64


def live(
    keep: Callable[[str, dict[str, Any], Callable[[], Any]], Any], networks: Sequence[str], seeds: int
) -> tuple[dict[str, Any], Any]:
    """Runs of every search by network, and the machine's hardware."""
    found: dict[str, Any] = {}
    for network in networks or NETWORKS:
        rows: dict[str, list[Any]] = {name: [] for name in (*SEARCHES, *STOCK)}
        for seed, name in in_turns([*SEARCHES, *STOCK], seeds):
            label, settings = f"live-{network}-{name}-{seed}", {"search": SEARCHES.get(name, name)}
            run = partial(tune, ROOT, network, seed, SEARCHES[name]) if name in SEARCHES else None
            rows[name].append(keep(label, settings, run or partial(stock, network, name, seed)))
        found[network] = rows
    return found, this_machine()


def stock(network: str, name: str, seed: int) -> dict[str, Any]:
    """One tuning by MetaSchedule's own search: the sum of its tasks' latencies over its seconds."""
    load_tensor_intrinsics()
    target = parse_target("llvm")
    tasks = extract_tasks(to_relax(load_network(network), target, AS_FASTEST), target, network)
    curve = Curve(tasks)
    with tempfile.TemporaryDirectory() as scratch:
        opened_database(Path(scratch))
        ms.tune_tasks(
            tasks=[make_tune_context(task.mod, target, seed=seed + 1, name=task.name) for task in tasks],
            task_weights=[float(task.weight) for task in tasks],
            work_dir=scratch,
            max_trials_global=TRIALS_A_TASK * len(tasks),
            num_trials_per_iter=min(64, TRIALS_A_TASK),
            builder=ms.builder.LocalBuilder(initializer=prepare_builder, timeout_sec=60.0),
            measure_callbacks=[*ms.measure_callback.MeasureCallback.create("default"), curve],
            **STOCK[name](),
        )
    return {"seed": seed, "curve": curve.points}


@derived_object
class Curve(ms.measure_callback.PyMeasureCallback):
    """Sum of the best latencies of all tasks over the seconds, from when each of them has one."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        super().__init__()
        self._weights = [task.weight for task in tasks]
        self._best_s = [math.inf] * len(tasks)
        self._begun = time.monotonic()
        self.points: list[tuple[float, float]] = []

    def apply(
        self,
        task_scheduler: ms.TaskScheduler,
        task_id: int,
        measure_candidates: Sequence[ms.MeasureCandidate],
        builder_results: Sequence[ms.builder.BuilderResult],
        runner_results: Sequence[ms.runner.RunnerResult],
    ) -> None:
        """See MeasureCallback."""
        seconds = [float(s) for result in runner_results for s in result.run_secs or ()]
        self._best_s[task_id] = min([self._best_s[task_id], *seconds])
        total = sum(weight * s for weight, s in zip(self._weights, self._best_s, strict=True))
        if math.isfinite(total):
            self.points.append((time.monotonic() - self._begun, total))
