"""Candidates of one task: in the process that searches, as plain data, and measured."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace

from ...compiler.replay import candidate_module_json
from ...compiler.tvm_compat import trace_as_json
from ...dataset.measure import MeasureOutcome

UNEMBEDDED = np.zeros(1, dtype=np.float32)
"""Embedding of a candidate that no surrogate reads."""


@dataclass(frozen=True, eq=False)
class Proposal:
    """A candidate as plain data, which may come from another process."""

    trace: str
    """Canonical trace (JSON), by which a search knows it."""
    record: str
    """JSON of the whole trace with postprocessing, as a MetaSchedule database keeps it."""
    module: str
    """TVM's JSON of the scheduled module."""
    score: float
    """Predicted score of the cost model."""
    embedding: NDArray[np.float32] = field(default_factory=lambda: UNEMBEDDED)
    """Embedding [d]; see `surrogate.embedding.CandidateEmbedder`."""
    is_start: bool = False
    """Whether the planner asked for it: it is measured before other candidates of its round."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A candidate as a search in this process holds it."""

    trace: str
    program: ms.MeasureCandidate
    score: float
    embedding: NDArray[np.float32] = field(default_factory=lambda: UNEMBEDDED)
    is_start: bool = False

    @property
    def record(self) -> str:
        """JSON of the whole trace; see Proposal."""
        return record_json(self.program.sch.trace)

    @property
    def module(self) -> str:
        """TVM's JSON of the scheduled module."""
        return candidate_module_json(self.program)

    def proposal(self) -> Proposal:
        """The same candidate as plain data."""
        return Proposal(
            self.trace,
            self.record,
            self.module,
            self.score,
            self.embedding,
            self.is_start,
        )


def record_json(trace: Trace) -> str:
    """JSON of a trace as a MetaSchedule database keeps it."""
    return json.dumps(trace_as_json(trace), separators=(",", ":"))


@dataclass(frozen=True, eq=False)
class Measurement:
    """A measured candidate; `proposal` is a Candidate where the search runs in this process."""

    proposal: Proposal | Candidate
    outcome: MeasureOutcome

    @property
    def trace(self) -> str:
        """Canonical trace (JSON) of the candidate."""
        return self.proposal.trace

    @property
    def record(self) -> str:
        """JSON of the candidate's whole trace, as a MetaSchedule database keeps it."""
        return self.proposal.record

    @property
    def predicted_score(self) -> float:
        """Predicted score of the cost model."""
        return self.proposal.score

    @property
    def latency_s(self) -> float:
        """Measured latency in seconds, inf for a failure."""
        return self.outcome.latency_s
