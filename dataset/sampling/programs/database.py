"""Sampling from a MetaSchedule database: the programs that another search found, measured on this device."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import tvm

from ....compiler.described_task import described_task
from ....compiler.replay import candidate_trace_json, replay
from ....compiler.tvm_compat import workload_hash
from ...records.exchange import read_traces
from .counts import DUPLICATE
from .sampler import LivePrograms, ProgramSampler
from .setting import SamplerSetting


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

    def __init__(self, setting: SamplerSetting, traces: Sequence[str]) -> None:
        """`traces` are canonical traces (JSON) of the task, the first to propose first."""
        super().__init__(setting)
        self._traces = list(reversed(traces))

    def _draw(self) -> LivePrograms:
        drawn: LivePrograms = {}
        while self._traces and len(drawn) < self.per_round:
            self._tried += 1
            candidate = replay(self.context, self._traces.pop())
            if candidate is None:
                self.rejected["trace does not replay"] += 1
                continue
            trace = candidate_trace_json(candidate)
            if trace in self.known or trace in drawn:
                self.passed_over[DUPLICATE] += 1
            else:
                drawn[trace] = candidate
        return drawn
