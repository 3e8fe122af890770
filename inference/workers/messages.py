"""Messages between the tuner and its search processes, and their JSON form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import tvm

from ...compiler.task import Task
from ...compiler.tvm_compat import module_from_json
from ...dataset.sampling.programs.counts import CandidateCounts
from ..reuse.parent import ReuseParent
from ..run.result import NOTHING_TO_TUNE
from ..search.candidate import Candidate
from ..search.loop import RoundBudget

_DECIMALS = 4
"""Decimals of embeddings in messages, enough for the distances between embeddings."""


@dataclass(frozen=True, eq=False)
class SiblingProgram:
    """Measured program of another task that shares the surrogate."""

    workload: str
    """Workload hash of the other task."""
    candidate: Candidate
    """Measured program. Its trace may be a hash; see `surrogate.memory.SurrogateMemory`."""
    latency_s: float
    """Measured latency in seconds."""

    def to_json(self) -> dict[str, Any]:
        """JSON-able form."""
        return {**vars(self), "candidate": _candidate_to_json(self.candidate)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> SiblingProgram:
        """Inverse of `to_json`."""
        return cls(**{**values, "candidate": _candidate_from_json(values["candidate"])})


@dataclass(frozen=True)
class RoundRequest:
    """Request for the next proposals of one task."""

    key: str
    """Workload hash of the task."""
    budget: RoundBudget
    learned: Mapping[str, float] = field(default_factory=dict)
    """Latencies in seconds by trace that the process does not know yet; inf for a failure."""
    starts: tuple[str, ...] = ()
    """Traces of start candidates."""
    surrogate_group: str = ""
    """Name of the surrogate that the task shares with other tasks; "" for an unshared surrogate."""
    task: Task | None = None
    """Task to open in the process; None if the process knows the task."""
    siblings: tuple[SiblingProgram, ...] = ()
    """Programs of other tasks with the same surrogate that the process does not know yet."""
    parents: tuple[ReuseParent, ...] = ()
    """Programs of other tasks that this task reuses, the most promising first."""

    def to_json(self) -> dict[str, Any]:
        """JSON-able form."""
        return {
            "key": self.key,
            "budget": asdict(self.budget),
            "learned": {trace: s if math.isfinite(s) else None for trace, s in self.learned.items()},
            "starts": list(self.starts),
            "surrogate_group": self.surrogate_group,
            "siblings": [sibling.to_json() for sibling in self.siblings],
            "task": None if self.task is None else _task_to_json(self.task),
            "parents": [[_task_to_json(parent.task), parent.trace] for parent in self.parents],
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RoundRequest:
        """Inverse of `to_json`."""
        task = values["task"]
        return cls(
            key=values["key"],
            budget=RoundBudget(**values["budget"]),
            learned={trace: math.inf if s is None else s for trace, s in values["learned"].items()},
            starts=tuple(values["starts"]),
            surrogate_group=values["surrogate_group"],
            siblings=tuple(SiblingProgram.from_json(sibling) for sibling in values["siblings"]),
            task=None if task is None else _task_from_json(task),
            parents=tuple(ReuseParent(_task_from_json(of), trace) for of, trace in values["parents"]),
        )


@dataclass(frozen=True)
class RoundReply:
    """Reply to a RoundRequest."""

    proposals: tuple[Candidate, ...] = ()
    """Proposed candidates, with their programs as text."""
    scored: int = 0
    """Number of programs that the cost model rated for the round."""
    stage_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds of work by stage."""
    nothing_to_tune: bool = False
    """Whether no schedule changes the execution of the task."""
    error: str = ""
    """Message of the exception that ended the search of the task; "" without an exception."""
    counts: CandidateCounts = field(default_factory=CandidateCounts)
    """Number of candidates of the round by outcome."""

    @property
    def reason(self) -> str:
        """Reason why the search of the task cannot continue; "" if it can."""
        if self.nothing_to_tune:
            return NOTHING_TO_TUNE
        return f"the search failed: {self.error.splitlines()[0]}" if self.error else ""

    def to_json(self) -> dict[str, Any]:
        """JSON-able form."""
        return {
            "proposals": [_candidate_to_json(candidate) for candidate in self.proposals],
            "scored": self.scored,
            "counts": asdict(self.counts),
            "stage_s": dict(self.stage_s),
            "nothing_to_tune": self.nothing_to_tune,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RoundReply:
        """Inverse of `to_json`. If the worker answers with an exception, the reply holds its message."""
        if "error" in values:
            return cls(error=str(values["error"]).strip() or "no message")
        return cls(
            proposals=tuple(_candidate_from_json(one) for one in values["proposals"]),
            scored=values["scored"],
            counts=CandidateCounts(**values["counts"]),
            stage_s=values["stage_s"],
            nothing_to_tune=values["nothing_to_tune"],
        )


def _task_to_json(task: Task) -> dict[str, Any]:
    """Fields of a task that a search needs."""
    return {
        "name": task.name,
        "mod": tvm.ir.save_json(task.mod),
        "weight": task.weight,
        "source": task.source,
        "operator": task.operator,
        "settings": {},
        "flops": task.flops,
    }


def _candidate_to_json(candidate: Candidate) -> dict[str, Any]:
    embedding = candidate.embedding.astype(np.float64).round(_DECIMALS).tolist()
    return {**vars(candidate), "embedding": embedding}


def _task_from_json(values: Mapping[str, Any]) -> Task:
    return Task(**{**values, "mod": module_from_json(values["mod"])})


def _candidate_from_json(values: Mapping[str, Any]) -> Candidate:
    return Candidate(**{**values, "embedding": np.array(values["embedding"], dtype=np.float32)})
