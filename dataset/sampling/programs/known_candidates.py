"""Candidates of a task that a search knows, and the live programs of the unmeasured ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from tvm.s_tir import meta_schedule as ms

from ....compiler.replay import candidate_trace_json

LivePrograms: TypeAlias = dict[str, ms.MeasureCandidate]
"""Live programs by the canonical trace of their candidates, in the order in which they are proposed."""


class LiveProgram(NamedTuple):
    """A candidate's replayed program. It lives in the process that replayed it; only its trace leaves it."""

    trace: str
    """Canonical trace (JSON), which identifies the candidate."""
    program: ms.MeasureCandidate
    """Schedule with its arguments."""

    @classmethod
    def of(cls, program: ms.MeasureCandidate) -> LiveProgram:
        """The program with the trace read back from it, because TVM moves decisions it does not allow."""
        return cls(candidate_trace_json(program), program)


class KnownCandidates:
    """Candidates of one task that were proposed or measured before, so that none is proposed twice.

    Two candidates are the same if their canonical traces are equal. There is one object for each task that a
    process searches: the search session owns it, or the sampler in dataset generation. Every sampler of the
    task reads and extends the same object.
    """

    def __init__(self) -> None:
        self._traces: set[str] = set()
        self._live: dict[str, ms.MeasureCandidate] = {}

    def __contains__(self, trace: object) -> bool:
        return trace in self._traces

    def __iter__(self) -> Iterator[str]:
        return iter(self._traces)

    def add(self, traces: Iterable[str]) -> None:
        """Adds candidates by their canonical traces."""
        self._traces.update(traces)

    def hold(self, programs: Iterable[LiveProgram]) -> None:
        """Adds candidates and keeps their live programs until `release`."""
        for trace, program in programs:
            self._traces.add(trace)
            self._live[trace] = program

    def program(self, trace: str) -> ms.MeasureCandidate:
        """Live program of a held candidate; raises KeyError for any other."""
        return self._live[trace]

    def release(self, trace: str) -> ms.MeasureCandidate | None:
        """Forgets and returns a candidate's live program, or None; the candidate stays known."""
        return self._live.pop(trace, None)
