"""State of one task while it is tuned."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ...compiler.task import ALTERNATIVE, Task
from ..database.tuning_notes import TaskName
from ..planners.expected_gain import Progress, gain
from .candidate import MeasuredCandidate
from .loop import SearchLoop
from .task_state import EarlierRuns, Effort, Ending, InFlight, NetworkRole, RoundsHad


@dataclass(eq=False)
class TaskSearch:
    """One task of a run: its search loop and the parts of its state.

    Planners read its properties and change nothing.
    """

    task: Task
    loop: SearchLoop
    """Open proposals, and what they measured in this run."""
    family: str = ""
    """Name of the family that the task belongs to."""
    surrogate_group: str = ""
    """Name of the surrogate that the task shares with others, "" for its own."""
    untuned_s: float = math.inf
    """Latency without a schedule, inf where it is not known or does not run."""
    parent: TaskName | None = None
    """Task that its short search followed, in this run or an earlier one; None where it was searched by
    itself."""
    role: NetworkRole[TaskSearch] = field(default_factory=NetworkRole, init=False)
    earlier: EarlierRuns = field(default_factory=EarlierRuns, init=False)
    had: RoundsHad = field(default_factory=RoundsHad, init=False)
    flight: InFlight = field(default_factory=InFlight, init=False)
    effort: Effort = field(default_factory=Effort, init=False)
    ending: Ending = field(default_factory=Ending, init=False)

    @property
    def known_s(self) -> float | None:
        """Latency of the database's schedule in seconds, None where it has none."""
        return self.earlier.known_s

    @property
    def earlier_rounds(self) -> int | None:
        """Rounds of an earlier run that was stopped; None where none was, or its search was complete."""
        return self.earlier.rounds

    @property
    def rounds(self) -> int:
        """Rounds of this run."""
        return self.had.rounds

    @property
    def full_rounds(self) -> int:
        """Rounds searched and measured in full, those of the earlier run included, quick rounds not."""
        return self.had.full_rounds

    @property
    def over(self) -> bool:
        """Whether the search has nothing more to propose."""
        return self.had.over

    @property
    def busy(self) -> bool:
        """Whether it is searched or measured right now."""
        return self.flight.busy

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
        return self.task.weight or self.role.calls_instead

    @property
    def is_alternative(self) -> bool:
        """Whether the network calls it only where it is faster than what it replaces."""
        return self.task.source == ALTERNATIVE

    @property
    def had_a_round(self) -> bool:
        """Whether this run or an earlier one has measured it."""
        return bool(self.had.history_s) or self.known_s is not None

    @property
    def stake_s(self) -> float:
        """Seconds of a run of the network that are spent in the task, or would be in an alternative.

        A task counts with the fastest way, be it that of an alternative which stands for it. Before a program
        of it ran, such an alternative counts as what it stands for. Others have no seconds then, and so are
        searched after what they replace.
        """
        if self.task.weight:
            ways_s = (way.best_s for way in (self, *self.role.stand_ins))
            return self.task.weight * min(self.untuned_s, *ways_s)
        if math.isfinite(self.best_s):
            return self.role.calls_instead * self.best_s
        return 0.0 if self.role.stands_for is None else self.role.stands_for.stake_s

    @property
    def operations(self) -> float:
        """Floating-point operations of a run of the network in the task.

        An alternative that stands for another task has those of that task times its expected gain: it is
        searched before that task, which may then be worth no more than a look.
        """
        if self.role.stands_for is None:
            return self.calls * self.task.flops
        return self.role.expected_gain * self.role.stands_for.operations

    @property
    def program_s(self) -> float:
        """Seconds that searching and measuring a program of it takes; 1 before any was measured."""
        known = self.loop.known
        measured_s = sum(one.outcome.build_s + one.outcome.run_s for one in known)
        return (self.effort.search_s + measured_s) / len(known) or 1.0 if known else 1.0

    @property
    def complete_before(self) -> bool:
        """Whether an earlier run searched the task to its end."""
        return self.known_s is not None and self.earlier_rounds is None

    @property
    def progress(self) -> Progress:
        """Progress by which the expected gain of another round is estimated."""
        per_round = (self.effort.search_s + self.effort.measure_s) / max(self.rounds, 1)
        latency_s = min(self.best_s, self.untuned_s)
        return Progress(self.calls, latency_s, tuple(self.had.gains), per_round or 1.0)

    def round_begins(self) -> None:
        """Notes the latency before a round whose proposals have arrived."""
        self.had.rounds += 1
        self.had.before_s = self.best_s

    def end(self) -> None:
        """Ends the search, whose rounds are not counted as complete."""
        self.had.over = True

    def give_up(self, all_rounds: int) -> None:
        """Ends the search as if it had all of its rounds."""
        self.end()
        self.complete(all_rounds)

    def complete(self, all_rounds: int) -> None:
        """Counts the search as if it had all of its rounds."""
        self.had.full_rounds = max(self.full_rounds, all_rounds)

    def round_ends(self, measured: list[MeasuredCandidate], *, complete: bool, all_rounds: int) -> None:
        """Notes what a round measured; one that a limit cut short is repeated, so that it does not count.

        Neither does a round in which nothing of a parent's ran: a search without the parent follows.
        """
        had, flight = self.had, self.flight
        flight.busy = False
        helpless = self.parent is not None and math.isinf(self.best_s)
        # Starts that do not replay say nothing about other candidates.
        had.over = had.over or (flight.budget.search and self.loop.exhausted and not helpless)
        had.full_rounds += complete and not flight.budget.quick and not helpless
        if had.over:
            self.give_up(all_rounds)
        had.history_s.append(self.best_s)
        flight.untold |= {m.trace: m.latency_s for m in measured}
        if had.rounds > 1 or self.known_s is not None:
            had.gains.append(gain(had.before_s, self.best_s))
