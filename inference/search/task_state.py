"""State of one task while it is tuned, in parts that have one owner each."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ...dataset.sampling.programs.counts import CandidateCounts
from ..workers.base import Searcher
from .loop import RoundBudget

Other = TypeVar("Other")


@dataclass
class NetworkRole(Generic[Other]):
    """Part of an alternative in the network, and of the tasks that it replaces; `Contests` writes it."""

    calls_instead: int = 0
    """Calls of the network that it takes over if it is faster than what it replaces; 0 for no alternative."""
    stands_for: Other | None = None
    """Task that it replaces everywhere and is expected to be faster than, None for other tasks."""
    expected_gain: float = 1.0
    """Expected latency of the task that it stands for over its own."""
    stand_ins: list[Other] = field(default_factory=list)
    """Alternatives that stand for the task."""
    known_resized: bool = False
    """Whether it is an alternative whose layer an earlier run measured at another size."""


@dataclass
class EarlierRuns:
    """Findings of earlier runs; `Ledger` writes them."""

    known_s: float | None = None
    """Latency in seconds of the database's schedule, None without one."""
    rounds: int | None = None
    """Rounds of an earlier run that was stopped; None if there was none, or its search was complete."""


@dataclass
class RoundsHad:
    """Rounds that are over; `TaskSearch` writes them."""

    rounds: int = 0
    """Rounds of this run, the current one included."""
    full_rounds: int = 0
    """Rounds searched and measured in full, those of the earlier run included, quick rounds not."""
    history_s: list[float] = field(default_factory=list)
    """Best latency after each round of this run."""
    gains: list[float] = field(default_factory=list)
    """Share of the latency that each round has saved."""
    before_s: float = math.inf
    """Best latency before the current round."""
    over: bool = False
    """Whether the search has nothing more to propose."""


@dataclass
class InFlight:
    """Round that is searched or measured, or was the last; who hands out rounds writes it."""

    busy: bool = False
    """Whether the task is searched or measured right now."""
    budget: RoundBudget = field(default_factory=lambda: RoundBudget(0))
    """Budget of the round."""
    to_be_continued: bool = False
    """Whether the round leaves the task unfinished; see `planners.base.Round`."""
    asked_at: float = 0.0
    """Monotonic time in seconds at which the searcher was asked."""
    searcher: Searcher | None = None
    """Searcher that knows the task; None before the first round and after that searcher died."""
    untold: dict[str, float] = field(default_factory=dict)
    """Measured latencies by trace that the searcher was not told."""
    deaths: int = 0
    """Searchers that died searching the task."""


@dataclass
class Effort:
    """Candidates and seconds that the task took in this run."""

    scored: int = 0
    """Candidates that the cost model rated."""
    counts: CandidateCounts = field(default_factory=CandidateCounts)
    """Candidates of the searches, by what became of them."""
    search_s: float = 0.0
    measure_s: float = 0.0


@dataclass
class Ending:
    """Outcome of a search that was not measured."""

    reason: str = ""
    """Why the task ended without a search, "" for other tasks."""
    predicted: bool = False
    """Whether it has a schedule that was not measured, from this run or an earlier one."""
