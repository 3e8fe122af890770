"""Rated pools of networks, and tuning runs on them.

Searcher over a pool whose programs were rated once, so that a search lasts milliseconds.

It makes the same proposals as `PoolStrategy`, without replaying traces or computing features. It serves to
compare planners, families and surrogates with many seeds.
"""

from __future__ import annotations

import json
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
from foretune.inference.search.candidate import Candidate
from foretune.inference.search.loop import RoundBudget
from foretune.inference.search.persistence import Ledger
from foretune.inference.search.session import SearchSession, SessionResources
from foretune.inference.search.tuner import Hooks, NetworkTuner
from foretune.inference.strategies.pool import PoolConfig, best_rows
from foretune.inference.strategies.sampled import QUICK_PROPOSALS
from foretune.inference.surrogate.base import Surrogate
from foretune.inference.surrogate.shared import Surrogates
from foretune.inference.workers.messages import RoundReply, RoundRequest
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from . import SHOWN

RatedPool = Mapping[str, Sequence[Candidate]]
"""Programs of each task by workload hash, with scores of the frozen cost model and embeddings."""


def rate(task: Task, target: Target, model: ms.CostModel, pool: ProgramPool) -> list[Candidate]:
    """Programs of a task that replay, rated by `model`, in the order of their scores."""
    programs = len(pool.programs(task.workload_hash))
    if not programs:
        return []
    everything = OneShotConfig(
        PoolConfig(), rounds=1, top_k=programs, replay_factor=1, random_share=0.0, surrogate=False
    )
    resources = SessionResources(model, everything, pool.hardware, of_strategy=pool, threads=1)
    session = SearchSession(task, target, resources)
    return session.propose(RoundBudget(programs))


def save_rated(path: Path, rated: RatedPool) -> None:
    """Writes a rated pool as arrays, without pickles."""
    arrays: dict[str, np.ndarray] = {}
    for workload, programs in rated.items():
        arrays[f"{workload}/scores"] = np.array([program.score for program in programs])
        arrays[f"{workload}/embeddings"] = np.stack([p.embedding for p in programs]).astype(np.float32)
        text = json.dumps([program.trace for program in programs]).encode()
        arrays[f"{workload}/traces"] = np.frombuffer(text, dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def load_rated(path: Path) -> RatedPool:
    """Inverse of `save_rated`."""
    with np.load(path, allow_pickle=False) as arrays:
        workloads = dict.fromkeys(name.partition("/")[0] for name in arrays.files)
        return {
            workload: [
                Candidate(trace, float(score), embedding)
                for trace, score, embedding in zip(
                    json.loads(arrays[f"{workload}/traces"].tobytes()),
                    arrays[f"{workload}/scores"],
                    arrays[f"{workload}/embeddings"],
                    strict=True,
                )
            ]
            for workload in workloads
        }


class PooledSearcher:
    """Answers requests from a rated pool, in this process."""

    connection = None

    def __init__(self, rated: RatedPool, config: OneShotConfig) -> None:
        self._rated = rated
        self._config = config
        self._rng = np.random.default_rng(config.seed)
        self._surrogates = Surrogates()
        self._left: dict[str, dict[str, Candidate]] = {}
        self._request: RoundRequest | None = None

    def ask(self, request: RoundRequest) -> None:
        """See Searcher."""
        self._request = request

    def reply(self) -> RoundReply:
        """See Searcher."""
        assert self._request is not None, "a reply follows a request"
        request, self._request = self._request, None
        every = {program.trace: program for program in self._rated.get(request.key, ())}
        left = self._left.setdefault(request.key, dict(every))
        surrogate = self._surrogates.of(request.key, request.surrogate_group)
        for sibling in request.siblings:
            self._surrogates.of(sibling.workload, request.surrogate_group).learn(
                [sibling.candidate], [sibling.latency_s]
            )
        learned = [trace for trace in request.learned if trace in every]
        surrogate.learn([every[trace] for trace in learned], [request.learned[trace] for trace in learned])
        for trace in learned:
            left.pop(trace, None)
        first = [replace(left.pop(start), is_start=True) for start in request.starts if start in left]
        found = first + (self._proposed(left, surrogate, request.budget) if request.budget.search else [])
        return RoundReply(tuple(found), scored=len(left))

    def _proposed(
        self, left: dict[str, Candidate], surrogate: Surrogate, budget: RoundBudget
    ) -> list[Candidate]:
        if not left:
            return []
        programs = list(left.values())
        scores = np.array([program.score for program in programs])
        if self._config.surrogate:
            scores = surrogate.corrected(np.stack([program.embedding for program in programs]), scores)
        count = QUICK_PROPOSALS if budget.quick else self._config.proposed
        rows = best_rows(scores, count, self._config.random_share, self._rng)
        return [left.pop(programs[row].trace) for row in rows]

    def close(self) -> None:
        """See Searcher."""


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
