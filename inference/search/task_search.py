"""State of one task while it is tuned."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ...compiler.task import ALTERNATIVE, Task
from ...dataset.sampling.programs.counts import CandidateCounts
from ..database.tuning_notes import TaskName
from ..planners.expected_gain import Progress, gain
from ..workers.searchers import Searcher
from .candidate import MeasuredCandidate
from .loop import RoundBudget, SearchLoop


@dataclass(eq=False)
class TaskSearch:
    """One task: its search loop, what earlier runs know of it, and how far it is.

    Planners read it and change nothing.
    """

    task: Task
    loop: SearchLoop
    """Open proposals, and what they measured in this run."""
    family: str = ""
    """Name of the family that the task belongs to."""
    surrogate_group: str = ""
    """Name of the surrogate that the task shares with others, "" for its own."""
    calls_instead: int = 0
    """Places of the network that call it if it is faster than what it replaces; 0 for no alternative."""
    stands_for: TaskSearch | None = None
    """What it replaces everywhere and is expected to be faster than, None for other tasks."""
    expected_gain: float = 1.0
    """Expected latency of what it stands for over its own."""
    stand_ins: list[TaskSearch] = field(default_factory=list)
    """Alternatives that stand for it."""
    known_resized: bool = False
    """Whether it is an alternative whose layer an earlier run measured at another size."""
    untuned_s: float = math.inf
    """Latency without a schedule, inf where it is not known or does not run."""
    known_s: float | None = None
    """Latency of the database's schedule, None where it has none."""
    earlier_rounds: int | None = None
    """Rounds of an earlier run that was stopped; None where none was, or its search was complete."""
    rounds: int = 0
    """Rounds of this run."""
    full_rounds: int = 0
    """Rounds searched and measured in full, those of the earlier run included, quick rounds not."""
    history_s: list[float] = field(default_factory=list)
    """Best latency after each round of this run."""
    gains: list[float] = field(default_factory=list)
    over: bool = False
    """Whether the search has nothing more to propose."""
    busy: bool = False
    """Whether it is searched or measured right now."""
    predicted: bool = False
    """Whether it has a schedule that was not measured, from this run or an earlier one."""
    reason: str = ""
    """Why the task ended without a search, "" where it did not."""
    scored: int = 0
    counts: CandidateCounts = field(default_factory=CandidateCounts)
    """Candidates of this run's searches, by what became of them."""
    search_s: float = 0.0
    measure_s: float = 0.0
    searcher: Searcher | None = None
    """Searcher that knows the task; None before the first round and after that searcher died."""
    budget: RoundBudget = field(default_factory=lambda: RoundBudget(0))
    """Budget of the current or last round."""
    parent: TaskName | None = None
    """Task that its short search followed, in this run or an earlier one; None where it was searched by
    itself."""
    to_be_continued: bool = False
    """Whether the current or last round leaves the task unfinished; see `planner.Round`."""
    untold: dict[str, float] = field(default_factory=dict)
    """Measured latencies by trace that the searcher was not told."""
    deaths: int = 0
    """Searchers that died searching it."""
    asked_at: float = 0.0
    _before_s: float = math.inf

    @property
    def best_s(self) -> float:
        """Best latency with a schedule in seconds, inf where none ran."""
        found = self.loop.best_s
        return found if self.known_s is None else min(found, self.known_s)

    @property
    def network_s(self) -> float:
        """Seconds that a run of the network spends in the task with the best so far; 0 for weight 0."""
        return self.task.weight * min(self.best_s, self.untuned_s) if self.task.weight else 0.0

    @property
    def calls(self) -> int:
        """Calls in one run of the network, those of an alternative included; 0 where nothing calls it."""
        return self.task.weight or self.calls_instead

    @property
    def is_alternative(self) -> bool:
        """Whether the network calls it only where it is faster than what it replaces."""
        return self.task.source == ALTERNATIVE

    @property
    def had_a_round(self) -> bool:
        """Whether this run or an earlier one has measured it."""
        return bool(self.history_s) or self.known_s is not None

    @property
    def stake_s(self) -> float:
        """Seconds of a run of the network that are spent in the task, or would be in an alternative.

        A task counts with the fastest way, be it that of an alternative which stands for it. Before a program
        of it ran, such an alternative counts as what it stands for. Others have no seconds then, and so are
        searched after what they replace.
        """
        if self.task.weight:
            ways_s = (way.best_s for way in (self, *self.stand_ins))
            return self.task.weight * min(self.untuned_s, *ways_s)
        if math.isfinite(self.best_s):
            return self.calls_instead * self.best_s
        return 0.0 if self.stands_for is None else self.stands_for.stake_s

    @property
    def operations(self) -> float:
        """Floating-point operations of a run of the network in the task.

        An alternative that stands for another task has those of that task times its expected gain: it is
        searched before that task, which may then be worth no more than a look.
        """
        if self.stands_for is None:
            return self.calls * self.task.flops
        return self.expected_gain * self.stands_for.operations

    @property
    def program_s(self) -> float:
        """Seconds that searching and measuring a program of it takes; 1 before any was measured."""
        known = self.loop.known
        measured_s = sum(one.outcome.build_s + one.outcome.run_s for one in known)
        return (self.search_s + measured_s) / len(known) or 1.0 if known else 1.0

    @property
    def complete_before(self) -> bool:
        """Whether an earlier run searched the task to its end."""
        return self.known_s is not None and self.earlier_rounds is None

    @property
    def progress(self) -> Progress:
        """Progress by which the expected gain of another round is estimated."""
        per_round = (self.search_s + self.measure_s) / max(self.rounds, 1)
        latency_s = min(self.best_s, self.untuned_s)
        return Progress(self.calls, latency_s, tuple(self.gains), per_round or 1.0)

    def round_begins(self) -> None:
        """Notes the latency before a round whose proposals have arrived."""
        self.rounds += 1
        self._before_s = self.best_s

    def give_up(self, all_rounds: int) -> None:
        """Ends the search as if it had all of its rounds."""
        self.over = True
        self.full_rounds = max(self.full_rounds, all_rounds)

    def round_ends(self, measured: list[MeasuredCandidate], *, complete: bool, all_rounds: int) -> None:
        """Notes what a round measured; one that a limit cut short is repeated, so that it does not count.

        Neither does a round in which nothing of a parent's ran: a search without the parent follows.
        """
        self.busy = False
        helpless = self.parent is not None and math.isinf(self.best_s)
        # Starts that do not replay say nothing about other candidates.
        self.over = self.over or (self.budget.search and self.loop.exhausted and not helpless)
        self.full_rounds += complete and not self.budget.quick and not helpless
        if self.over:
            self.give_up(all_rounds)
        self.history_s.append(self.best_s)
        self.untold |= {m.trace: m.latency_s for m in measured}
        if self.rounds > 1 or self.known_s is not None:
            self.gains.append(gain(self._before_s, self.best_s))
