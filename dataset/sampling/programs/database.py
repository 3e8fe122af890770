"""Sampling from a MetaSchedule database: the programs that another search found, measured on this device."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import tvm
from tvm.target import Target

from ....compiler.described_task import described_task
from ....compiler.replay import candidate_trace_json, replay
from ....compiler.task import Task
from ....compiler.tvm_compat import workload_hash
from ...records.exchange import read_traces
from .counts import DUPLICATE
from .sampler import ProgramSampler, Proposal


class DatabaseTasks:
    """Tasks of a MetaSchedule `JSONDatabase` folder, with the traces recorded for each, fastest first."""

    def __init__(self, folder: Path) -> None:
        """Read the folder; raises the errors of `read_traces`."""
        modules: dict[str, tvm.IRModule] = {}
        recorded: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
        for mod, trace, run_secs in read_traces(folder):
            name = workload_hash(mod)
            modules.setdefault(name, mod)
            recorded[name].append((min(run_secs, default=math.inf), trace))
        self.traces = {
            name: [trace for _, trace in sorted(entries, key=lambda entry: entry[0])]
            for name, entries in recorded.items()
        }
        """Trace JSON by workload hash."""
        self.tasks = [described_task(mod) for mod in modules.values()]


class DatabaseSampler(ProgramSampler):
    """Sampler that proposes recorded traces in order; a trace that does not replay counts as rejected."""

    name = "database"

    def __init__(
        self, task: Task, target: Target, *, traces: Sequence[str], per_round: int, seed: int
    ) -> None:
        super().__init__(task, target, per_round=per_round, seed=seed)
        self._traces = list(reversed(traces))

    def _draw(self) -> Iterable[Proposal]:
        drawn: dict[str, Proposal] = {}
        while self._traces and len(drawn) < self.per_round:
            self._tried += 1
            candidate = replay(self.context, self._traces.pop())
            if candidate is None:
                self.rejected["trace does not replay"] += 1
                continue
            trace = candidate_trace_json(candidate)
            if trace in self._known or trace in drawn:
                self.passed_over[DUPLICATE] += 1
            else:
                drawn[trace] = trace, candidate
        return drawn.values()
