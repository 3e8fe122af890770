"""Searcher over a pool whose programs were rated once, so that a search lasts milliseconds.

It makes the same proposals as `PoolStrategy`, without replaying traces or computing features. It serves to
compare planners, families and surrogates with many seeds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from foretune.compiler.task import Task
from foretune.dataset.records.program_pool import ProgramPool
from foretune.inference.search.candidate import Candidate
from foretune.inference.search.config import OneShotConfig
from foretune.inference.search.loop import RoundBudget
from foretune.inference.search.session import SearchSession, SessionResources
from foretune.inference.strategies.pool import PoolConfig, best_rows
from foretune.inference.strategies.sampled import QUICK_PROPOSALS
from foretune.inference.surrogate.base import Surrogate
from foretune.inference.surrogate.shared import Surrogates
from foretune.inference.workers.messages import RoundReply, RoundRequest
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

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
