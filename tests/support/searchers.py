"""Searchers, a database and a tuner for tests that need no search: programs whose module is their latency."""

from __future__ import annotations

import math

import numpy as np
from foretune.compiler.operators import Dense, to_task
from foretune.dataset.measure import MeasureOutcome
from foretune.dataset.records.schema import FailureKind
from foretune.inference.database.tuning_notes import TuningNotes
from foretune.inference.search.candidate import Candidate
from foretune.inference.search.config import OneShotConfig
from foretune.inference.search.persistence import Ledger
from foretune.inference.search.tuner import Hooks, NetworkTuner
from foretune.inference.workers.messages import RoundReply

from .fake_executor import FakeExecutor

TASKS = [to_task(Dense(rows=8, in_features=8, out_features=extent)) for extent in (8, 16, 32)]
UNTUNED_S = [0.010, 0.030, 0.020]


def made_up(trace, latency_s, score, *, is_start=False):
    """Candidate whose module is its latency in seconds."""
    embedding = np.zeros(4, np.float32)
    return Candidate(trace, score, embedding, is_start, record="[]", module=str(latency_s))


class FakeSearcher:
    """Proposes programs whose module is their latency: a round of a task is `latencies_s[round]`."""

    connection = None

    def __init__(self, latencies_s=((0.004, 0.006), (0.003, 0.005)), replies=()):
        self.latencies_s = latencies_s
        self.requests = []
        self._replies = list(replies)
        self._rounds = {}

    def ask(self, request):
        self.requests.append(request)

    def reply(self):
        if self._replies and (reply := self._replies.pop(0)) is not None:
            if isinstance(reply, Exception):
                raise reply
            return reply
        key = self.requests[-1].key
        number = self._rounds[key] = self._rounds.get(key, -1) + 1
        latencies = self.latencies_s[min(number, len(self.latencies_s) - 1)]
        proposals = tuple(
            made_up(f"{key} {number} {rank}", latency, 1.0 - 0.1 * rank)
            for rank, latency in enumerate(latencies)
        )
        return RoundReply(proposals, scored=10, stage_s={"features": 0.5})

    def close(self):
        pass

    @property
    def order(self):
        """Number of the task of each request."""
        keys = [task.workload_hash for task in TASKS]
        return [keys.index(request.key) for request in self.requests]


class FakeDatabase:
    def __init__(self, known=None, unfinished=None):
        self.known = known or {}
        self.unfinished = unfinished or {}
        self.committed = []
        self.notes = TuningNotes()

    def rounds_of_unfinished(self, task):
        return self.unfinished.get(task.workload_hash)

    def note_rounds(self, task, rounds, of):
        self.unfinished[task.workload_hash] = rounds if rounds < of else None

    def best_latency_s(self, task):
        return self.known.get(task.workload_hash)

    def latencies_s(self, task):
        return {"from the database": self.known[task.workload_hash]}

    def imported_starts(self, task):
        return []

    def commit(self, task, measurements, *, replaces):
        if replaces:
            self.committed = [one for one in self.committed if one[0] != task.workload_hash]
        self.committed += [(task.workload_hash, m.latency_s) for m in measurements]


def latency_of_module(job):
    seconds = float(job.module)
    if math.isinf(seconds):
        return MeasureOutcome(failure=FailureKind.RUN_ERROR, message="made to fail")
    return MeasureOutcome((seconds,), build_s=0.1, run_s=0.2)


def measuring_into(measured):
    """An executor that lists what it measures."""

    def measure(job):
        measured.append(job)
        return latency_of_module(job)

    return FakeExecutor(measure, measure)


def network_tuner(config, executor, searchers, database, *, planner=None, limits=None, **options):
    """A tuner; `options` are those of `Ledger` and `Hooks`, and `start_sources`."""
    kept = {
        name: options.pop(name) for name in ("retune", "searches", "predicted", "memory") if name in options
    }
    return NetworkTuner(
        config,
        executor,
        searchers,
        Ledger(database, config.rounds, **kept),
        planner=planner,
        start_sources=options.pop("start_sources", ()),
        limits=limits,
        hooks=Hooks(**options),
    )


def tuner_of(searcher, database=None, *, config=None, **options):
    return network_tuner(
        config or OneShotConfig(rounds=2, top_k=4),
        measuring_into([]),
        [searcher],
        database or FakeDatabase(),
        **options,
    )
