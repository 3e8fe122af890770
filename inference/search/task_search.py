"""State of one task during tuning."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from ...compiler.task import ALTERNATIVE, Task
from ..database.tuning_notes import TaskName
from ..planners.expected_gain import Progress, gain
from ..run.result import (
    BEATEN,
    FAST_ENOUGH,
    NO_CANDIDATE,
    NO_CANDIDATE_RAN,
    NO_TIME,
    UNTUNED_IS_FASTER,
    TaskResult,
)
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
    """Open proposals, and their measurements in this run."""
    family: str = ""
    """Name of the family that the task belongs to."""
    surrogate_group: str = ""
    """Name of the surrogate that the task shares with others, "" for its own."""
    untuned_s: float = math.inf
    """Latency in seconds without a schedule; inf if it is unknown or the program does not run."""
    parent: TaskName | None = None
    """Task that its short search followed, in this run or an earlier one; None after an independent
    search."""
    role: NetworkRole[TaskSearch] = field(default_factory=NetworkRole, init=False)
    earlier: EarlierRuns = field(default_factory=EarlierRuns, init=False)
    had: RoundsHad = field(default_factory=RoundsHad, init=False)
    flight: InFlight = field(default_factory=InFlight, init=False)
    effort: Effort = field(default_factory=Effort, init=False)
    ending: Ending = field(default_factory=Ending, init=False)

    @property
    def known_s(self) -> float | None:
        """Latency in seconds of the database's schedule; None without a schedule."""
        return self.earlier.known_s

    @property
    def earlier_rounds(self) -> int | None:
        """Rounds of a stopped earlier run; None without such a run or if its search was complete."""
        return self.earlier.rounds

    @property
    def rounds(self) -> int:
        """Number of rounds of this run."""
        return self.had.rounds

    @property
    def full_rounds(self) -> int:
        """Number of fully searched and measured rounds, with the earlier run and without quick rounds."""
        return self.had.full_rounds

    @property
    def over(self) -> bool:
        """Whether the search has nothing more to propose."""
        return self.had.over

    @property
    def busy(self) -> bool:
        """Whether the task is being searched or measured."""
        return self.flight.busy

    @property
    def best_s(self) -> float:
        """Best latency in seconds with a schedule; inf if no program ran."""
        found = self.loop.best_s
        return found if self.known_s is None else min(found, self.known_s)

    @property
    def fastest_s(self) -> float:
        """Best latency in seconds with a schedule, also of an alternative that stands for the task."""
        return min(self.best_s, *(way.best_s for way in self.role.stand_ins), math.inf)

    @property
    def beaten(self) -> bool:
        """Whether the task is not searched because another implementation of its calls is faster."""
        return self.ending.reason == BEATEN

    @property
    def call_s(self) -> float:
        """Seconds of a call with the best latency so far; of an alternative if the task is beaten."""
        return min(self.untuned_s, self.fastest_s if self.beaten else self.best_s)

    @property
    def network_s(self) -> float:
        """Seconds per run of the network in the task, with the best latency so far; 0 for weight 0."""
        return self.task.weight * self.call_s if self.task.weight else 0.0

    @property
    def calls(self) -> int:
        """Calls per run of the network, also the calls as an alternative; 0 if nothing calls the task."""
        return self.task.weight or self.role.calls_instead

    @property
    def is_alternative(self) -> bool:
        """Whether the network calls the task only if it is faster than the calls that it replaces."""
        return self.task.source == ALTERNATIVE

    @property
    def had_a_round(self) -> bool:
        """Whether this run or an earlier one has measured the task."""
        return bool(self.had.history_s) or self.known_s is not None

    @property
    def stake_s(self) -> float:
        """Seconds per run of the network that are spent in the task, or would be spent in an alternative.

        A task counts with its fastest implementation, including alternatives that stand for it. An
        alternative that stands for a task counts as that task until one of its own programs has run. Other
        alternatives have 0 seconds until then, and are therefore searched after the tasks that they replace.
        """
        if self.task.weight:
            return self.task.weight * min(self.untuned_s, self.fastest_s)
        if math.isfinite(self.best_s):
            return self.role.calls_instead * self.best_s
        return 0.0 if self.role.stands_for is None else self.role.stands_for.stake_s

    @property
    def operations(self) -> float:
        """Floating-point operations per run of the network in the task.

        An alternative that stands for another task has the other task's operations times the expected gain.
        It is therefore searched before the other task, which may then deserve only a short search.
        """
        if self.role.stands_for is None:
            return self.calls * self.task.flops
        return self.role.expected_gain * self.role.stands_for.operations

    @property
    def program_s(self) -> float:
        """Seconds to search and measure one program; 1 before the first measurement."""
        known = self.loop.known
        measured_s = sum(one.outcome.build_s + one.outcome.run_s for one in known)
        return (self.effort.search_s + measured_s) / len(known) or 1.0 if known else 1.0

    @property
    def complete_before(self) -> bool:
        """Whether an earlier run completed the search of the task."""
        return self.known_s is not None and self.earlier_rounds is None

    @property
    def progress(self) -> Progress:
        """Progress from which the expected gain of another round is estimated."""
        per_round = (self.effort.search_s + self.effort.measure_s) / max(self.rounds, 1)
        latency_s = min(self.best_s, self.untuned_s)
        return Progress(self.calls, latency_s, tuple(self.had.gains), per_round or 1.0)

    def round_begins(self) -> None:
        """Records the latency before a round. Call it when the proposals of the round have arrived."""
        self.had.rounds += 1
        self.had.before_s = self.best_s

    def beat(self) -> None:
        """Ends the search before its first round, because another implementation is faster."""
        self.ending.reason = BEATEN
        self.end()

    def end(self) -> None:
        """Ends the search without counting its rounds as complete."""
        self.had.over = True

    def give_up(self, all_rounds: int) -> None:
        """Ends the search as if it had all its rounds."""
        self.end()
        self.complete(all_rounds)

    def complete(self, all_rounds: int) -> None:
        """Counts the search as if it had all its rounds."""
        self.had.full_rounds = max(self.full_rounds, all_rounds)

    def round_ends(self, measured: list[MeasuredCandidate], *, complete: bool, all_rounds: int) -> None:
        """Records the measurements of a round. A round that a limit cut short does not count and is repeated.

        A round of a child does not count either if no program ran. A search without the parent follows.
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


def task_result(search: TaskSearch, *, fast_enough: bool = False) -> TaskResult:
    """Result of a task, with the reason if the task has no schedule of its own.

    `fast_enough` tells that the run ended because the network reached its latency target.
    """
    task, best_s, known = search.task, search.best_s, search.loop.known
    reason = search.ending.reason
    if math.isinf(best_s) and not reason and not search.ending.predicted:
        not_searched = FAST_ENOUGH if fast_enough else NO_TIME
        reason = NO_CANDIDATE_RAN if known else NO_CANDIDATE if search.over else not_searched
    elif best_s >= search.untuned_s and math.isfinite(best_s):
        reason = UNTUNED_IS_FASTER
    failures = [measurement.outcome.failure for measurement in known if measurement.outcome.failure]
    return TaskResult(
        name=task.name,
        operator=task.operator,
        workload_hash=task.workload_hash,
        weight=task.weight,
        flops=task.flops,
        untuned_latency_s=search.untuned_s if math.isfinite(search.untuned_s) else None,
        tuned_latency_s=best_s if best_s < search.untuned_s else None,
        candidates_scored=search.effort.scored,
        candidates_measured=len(known),
        candidates_failed=len(failures),
        search_s=search.effort.search_s,
        measure_s=search.effort.measure_s,
        predicted_scores=[measurement.predicted_score for measurement in known],
        measured_latencies_s=[measurement.latency_s for measurement in known],
        reason=reason,
        from_database=(search.known_s is not None and not known)
        or (search.ending.predicted and not search.rounds),
        family=search.family,
        parent="" if search.parent is None else search.parent.name,
        parent_hash="" if search.parent is None else search.parent.workload_hash,
        predicted=search.ending.predicted,
        candidates_drafted=search.effort.counts.drafted,
        candidates_tried=search.effort.counts.tried,
        candidates_rejected=dict(search.effort.counts.rejected),
        candidates_proposed=search.effort.counts.proposed,
        failures=dict(Counter(failure.value for failure in failures)),
        alternative=search.is_alternative,
    )
