"""State of one task during tuning, in parts with one owner each."""

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
    """Role in the network of an alternative or of a task that it replaces. `Contests` writes it."""

    calls_instead: int = 0
    """Calls of the network that the alternative replaces if it is faster; 0 for other tasks."""
    stands_for: Other | None = None
    """Task that the alternative can replace everywhere; None for other tasks."""
    expected_gain: float = 1.0
    """Expected latency of the task in `stands_for`, divided by the alternative's own latency; 1 if only a
    measurement tells."""
    stand_ins: list[Other] = field(default_factory=list)
    """Alternatives that stand for the task."""
    better: list[Other] = field(default_factory=list)
    """Alternatives to the same task that are expected to be clearly faster than this one."""
    known_resized: bool = False
    """Whether this is an alternative with a layer that an earlier run measured at another size."""


@dataclass
class EarlierRuns:
    """Findings of earlier runs. `Ledger` writes them."""

    known_s: float | None = None
    """Latency in seconds of the database's schedule; None without a schedule."""
    rounds: int | None = None
    """Rounds of a stopped earlier run; None without such a run or if its search was complete."""


@dataclass
class RoundsHad:
    """Finished rounds. `TaskSearch` writes them."""

    rounds: int = 0
    """Number of rounds of this run, including the current one."""
    full_rounds: int = 0
    """Number of fully searched and measured rounds, with the earlier run and without quick rounds."""
    history_s: list[float] = field(default_factory=list)
    """Best latency in seconds after each round of this run."""
    gains: list[float] = field(default_factory=list)
    """Share of the latency that each round saved."""
    before_s: float = math.inf
    """Best latency in seconds before the current round."""
    over: bool = False
    """Whether the search has nothing more to propose."""


@dataclass
class InFlight:
    """Current or last round of the task. The code that assigns rounds writes it."""

    busy: bool = False
    """Whether the task is being searched or measured."""
    budget: RoundBudget = field(default_factory=lambda: RoundBudget(0))
    """Budget of the round."""
    to_be_continued: bool = False
    """Whether the round leaves the task unfinished; see `planners.base.Round`."""
    asked_at: float = 0.0
    """Monotonic time in seconds of the request to the searcher."""
    searcher: Searcher | None = None
    """Searcher that knows the task; None before the first round and after that searcher died."""
    untold: dict[str, float] = field(default_factory=dict)
    """Measured latencies in seconds by trace that the searcher has not received yet."""
    deaths: int = 0
    """Number of searchers that died while they searched the task."""


@dataclass
class Effort:
    """Candidates and seconds spent on the task in this run."""

    scored: int = 0
    """Number of candidates that the cost model rated."""
    counts: CandidateCounts = field(default_factory=CandidateCounts)
    """Number of candidates of the searches by outcome."""
    search_s: float = 0.0
    measure_s: float = 0.0


@dataclass
class Ending:
    """Outcome of a search without measurements."""

    reason: str = ""
    """Reason why the task ended without a search; "" for other tasks."""
    predicted: bool = False
    """Whether the task has a schedule that was not measured, from this run or an earlier one."""
