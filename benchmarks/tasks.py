"""Single tasks that benchmarks search by name, and their programs timed in turns."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from foretune.compiler.networks import AS_FASTEST, Lowering, extract_tasks, load_network, to_relax
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import as_task_module
from foretune.dataset.measure import ExecutorConfig, MeasureConfig, MeasureJob, make_executor
from tvm.s_tir.meta_schedule.testing import te_workload
from tvm.target import Target

from .common import in_turns

TEN = (
    *("resnet18:0", "mobilenetv2:0", "bert_base:0"),
    *("C2D:0", "DEP:0", "C1D:0", "T2D:0", "GMM:0", "SFM:0", "NRM:0"),
)
"""Largest task of each headline network and seven operators of TVM's `te_workload`.

Settings of the search were chosen on these and on other tasks of the same networks."""

TURNS = 11
"""Timed runs of each program."""


def is_operator(source: str) -> bool:
    """Whether a name belongs to `te_workload` rather than to a network."""
    return source in te_workload.CONFIGS


def largest_first(network: str, target: Target, lowering: Lowering = AS_FASTEST) -> list[Task]:
    """Tasks of a network in the order of their share of its operations."""
    found = extract_tasks(to_relax(load_network(network), target, lowering), target, network)
    return sorted(found, key=lambda task: -task.weight * task.flops)


def tasks_named(
    names: Sequence[str], target: Target, lowering: Lowering = AS_FASTEST
) -> Iterator[tuple[str, Task]]:
    """Yields a short name and the task of each name.

    `resnet18:0` is the largest task of a network, `resnet18:all` stands for all its tasks, and `C2D:0` is the
    operator of `te_workload` with its first configuration. A task has its operator's description and shapes.
    """
    networks: dict[str, list[Task]] = {}
    for name in names:
        source, _, place = name.partition(":")
        if is_operator(source):
            yield f"{source}-{place or 0}", operator(source, int(place or 0))
            continue
        if source not in networks:
            networks[source] = largest_first(source, target, lowering)
        for number in range(len(networks[source])) if place == "all" else [int(place or 0)]:
            yield f"{source}-{number}", networks[source][number]


def operator(source: str, configuration: int) -> Task:
    """An operator of `te_workload`."""
    from foretune.compiler.described_task import described_task

    return described_task(as_task_module(te_workload.create_te_workload(source, configuration)), "", 1)


def time_in_turns(modules: Sequence[str], target: Target, *, flush: bool, turns: int = TURNS) -> list[float]:
    """Median latency in seconds of each scheduled module, given as TVM's JSON.

    `flush` flushes caches before each run, as if other operators had run before. Otherwise they stay warm, as
    with MetaSchedule's LocalRunner.
    """
    samples: list[list[float]] = [[] for _ in modules]
    config = MeasureConfig(repeats=5, groups=2, budget_s=0.5, cache_flush=flush)
    with make_executor(ExecutorConfig(), target, config, workers=1) as pool:
        for _, number in in_turns(range(len(modules)), turns):
            outcome = pool.measure([MeasureJob(modules[number], keep_built=True)])[0]
            samples[number].append(outcome.latency_s)
    return [statistics.median(values) for values in samples]
