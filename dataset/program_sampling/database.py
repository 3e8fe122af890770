"""Programs that somebody else's search found: the records of a MetaSchedule database, measured here."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import tvm
from tvm.target import Target

from ..described_task import described_task
from ..exchange import read_database
from ..replay import candidate_trace_json, replay
from ..task import Task
from ..tvm_compat import workload_hash
from .sampler import ProgramSampler, Proposal


class DatabaseTasks:
    """The tasks of a MetaSchedule `JSONDatabase` folder and the traces recorded for each, fastest first."""

    def __init__(self, folder: Path) -> None:
        """Raises the errors of `read_database`."""
        modules: dict[str, tvm.IRModule] = {}
        recorded: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
        for mod, trace, run_secs, _ in read_database(folder):
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
    """Proposes the recorded traces of a task in their order; one that does not replay counts as refused."""

    name = "database"

    def __init__(
        self, task: Task, target: Target, *, traces: Sequence[str], per_round: int, seed: int
    ) -> None:
        super().__init__(task, target, per_round=per_round, seed=seed)
        self._traces = list(reversed(traces))

    def _draw(self) -> Iterable[Proposal]:
        drawn: dict[str, Proposal] = {}
        while self._traces and len(drawn) < self.per_round:
            candidate = replay(self.context, self._traces.pop())
            if candidate is None:
                self.refused["trace does not replay"] += 1
                continue
            trace = candidate_trace_json(candidate)
            if trace not in self._known:
                drawn.setdefault(trace, (trace, candidate))
        return drawn.values()
