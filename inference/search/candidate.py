"""Candidates of one task as plain data, before and after measurement."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace

from ...compiler.replay import candidate_module_json
from ...compiler.tvm_compat import trace_as_json
from ...dataset.measure import MeasureOutcome

UNEMBEDDED = np.zeros(1, dtype=np.float32)
"""Embedding of a candidate without a surrogate."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """Schedule of a task with the search's knowledge of it.

    The type is the same from the replay of the trace to the record in a database, in all processes. The live
    program (`LiveProgram`) stays in the process that replayed it; `record` and `module` are this program as
    text. A `Draft` is an earlier form: its trace was not replayed, so that TVM may still move its decisions.
    """

    trace: str
    """Canonical trace (JSON), which identifies the candidate."""
    score: float
    """Predicted score of the frozen cost model; 0 without a model."""
    embedding: NDArray[np.float32] = field(default_factory=lambda: UNEMBEDDED)
    """Embedding float32 [d]; see `surrogate.embedding.CandidateEmbedder`."""
    is_start: bool = False
    """Whether the candidate comes from a start source or a parent and is measured first in its round."""
    record: str = ""
    """JSON of the whole trace with postprocessing, as a MetaSchedule database keeps it; "" if not written."""
    module: str = ""
    """TVM's JSON of the scheduled module, which workers build; "" if not written."""

    def with_text_of(self, program: ms.MeasureCandidate) -> Candidate:
        """The candidate with its live program as text, which other processes can build and record."""
        return replace(self, record=record_json(program.sch.trace), module=candidate_module_json(program))


def record_json(trace: Trace) -> str:
    """JSON of a trace as a MetaSchedule database keeps it."""
    return json.dumps(trace_as_json(trace), separators=(",", ":"))


@dataclass(frozen=True, eq=False)
class MeasuredCandidate:
    """A candidate with the outcome of its measurement."""

    candidate: Candidate
    outcome: MeasureOutcome

    @property
    def trace(self) -> str:
        """Canonical trace (JSON) of the candidate."""
        return self.candidate.trace

    @property
    def record(self) -> str:
        """JSON of the candidate's whole trace, as a MetaSchedule database keeps it."""
        return self.candidate.record

    @property
    def predicted_score(self) -> float:
        """Predicted score of the cost model."""
        return self.candidate.score

    @property
    def latency_s(self) -> float:
        """Measured latency in seconds, inf for a failure."""
        return self.outcome.latency_s
