"""Rated pools of networks, and tuning runs on them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from foretune.compiler.host.threads import linear_algebra_threads
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import load_tensor_intrinsics, parse_target
from foretune.dataset.measure.executors.replay import ReplayExecutor
from foretune.dataset.records.network_weights import read_networks
from foretune.dataset.records.program_pool import ProgramPool
from foretune.dataset.records.stored_tasks import stored_rows, stored_task
from foretune.inference import OneShotConfig, PretrainedCostModel
from foretune.inference.database.tuning_notes import TuningNotes
from foretune.inference.families.registry import family_of
from foretune.inference.run.result import TaskResult
from foretune.inference.search.persistence import Ledger
from foretune.inference.search.tuner import Hooks, NetworkTuner

from . import SHOWN
from .pooled import PooledSearcher, RatedPool, load_rated, rate, save_rated


@dataclass(frozen=True)
class NetworkPool:
    """Tasks of a network with programs, and the pool that measured them."""

    name: str
    tasks: Sequence[Task]
    pool: ProgramPool
    rated: RatedPool

    def shown(self, seed: int) -> RatedPool:
        """The programs of a seed."""
        rng = np.random.default_rng(seed)
        return {
            task.workload_hash: [
                programs[row]
                for row in np.sort(rng.permutation(len(programs))[: math.ceil(SHOWN * len(programs))])
            ]
            for task in self.tasks
            for programs in [self.rated[task.workload_hash]]
        }

    def latency_s(self, workload: str, trace: str) -> float:
        """Latency of a program in seconds, inf for a failure."""
        return self.pool.programs(workload)[trace].latency_s

    def best_s(self, rated: RatedPool) -> dict[str, float]:
        """Best latency of each task among its programs."""
        return {
            workload: min(self.latency_s(workload, program.trace) for program in programs)
            for workload, programs in rated.items()
        }

    @cached_property
    def weights(self) -> Mapping[str, int]:
        """Calls of each task in one run of the network."""
        return {task.workload_hash: task.weight for task in self.tasks}

    def families(self, grouping: str) -> dict[str, str]:
        """Family of each task by workload hash."""
        return {task.workload_hash: family_of(task, grouping) for task in self.tasks}


def load_pools(folder: Path, cache: Path) -> list[NetworkPool]:
    """A pool for each network of a dataset; the shipped model rates programs once, stored in `cache`."""
    pool = ProgramPool(folder)
    tasks = [stored_task(row) for row in stored_rows(folder) if pool.programs(row.workload_hash)]
    if not cache.exists():
        load_tensor_intrinsics()
        model = PretrainedCostModel.load("cpu", pool.hardware)
        target = parse_target("llvm")
        found = {task.workload_hash: rate(task, target, model, pool) for task in tasks}
        save_rated(cache, {name: programs for name, programs in found.items() if len(programs) > 1})
    rated = load_rated(cache)
    return [
        NetworkPool(
            name,
            [
                replace(task, weight=round(weights[task.workload_hash]))
                for task in tasks
                if task.workload_hash in weights and task.workload_hash in rated
            ],
            pool,
            rated,
        )
        for name, weights in read_networks(folder).items()
    ]


@dataclass(frozen=True)
class Replayed:
    """A tuning run on a pool."""

    results: Sequence[TaskResult]
    programs: Sequence[tuple[float, float]]
    """(programs measured, latency of the network in seconds)."""
    seconds: Sequence[tuple[float, float]]
    """(seconds of building and running, latency of the network in seconds)."""


class _NoDatabase:
    """Empty tuning database that stores nothing."""

    def __init__(self) -> None:
        self.notes = TuningNotes()

    def best_latency_s(self, task: Task) -> None:
        return None

    def rounds_of_unfinished(self, task: Task) -> None:
        return None

    def latencies_s(self, task: Task) -> dict[str, float]:
        return {}

    def imported_starts(self, task: Task) -> list[str]:
        return []

    def note_rounds(self, task: Task, rounds: int, of: int) -> None:
        pass

    def commit(self, task: Task, measurements: Sequence[Any], *, replaces: bool) -> None:
        pass


def replayed(network: NetworkPool, rated: RatedPool, settings: Mapping[str, Any]) -> Replayed:
    """Tunes a network on some of its pool's programs."""
    config = OneShotConfig("pool", **settings)
    executor = ReplayExecutor(network.pool)
    clock: list[tuple[int, float]] = []

    def now() -> float:
        clock.append((executor.measured, executor.elapsed_s()))
        return float(len(clock) - 1)

    tuner = NetworkTuner(
        config,
        executor,
        [PooledSearcher(rated, config)],
        Ledger(_NoDatabase(), config.rounds),  # type: ignore[arg-type]
        hooks=Hooks(elapsed_s=now),
    )
    untuned_s = [network.pool.slowest_s(task.workload_hash) or math.inf for task in network.tasks]
    with linear_algebra_threads(1):
        results = tuner.tune(network.tasks, untuned_s)
    at = [(clock[round(number)], latency_s) for number, latency_s in tuner.curve]
    return Replayed(
        results,
        [(float(programs), latency_s) for (programs, _), latency_s in at],
        [(seconds, latency_s) for (_, seconds), latency_s in at],
    )
