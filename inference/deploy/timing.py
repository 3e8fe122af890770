"""Latency of contestants, timed in turns; disturbed turns are repeated."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .runners import RunnerError
from .turn import Turn

TURN_S = 0.2
"""Seconds of calls in a turn: enough for counters that tick every 10 ms."""

LIMIT_S = 10.0
"""Seconds of turns after which a contestant gets no further one."""

SLOW_RATIO, SLOW_TURNS = 10.0, 3
"""Over SLOW_RATIO times slower than the fastest, a contestant gets SLOW_TURNS turns, which are enough."""

SLOW_BUDGET_S = 4.0
"""Such a slow contestant gets no further turn after its turns took this many seconds together."""

EXTRA = 2
"""Turns of a contestant at most, over those wanted."""

DISTURBED_CORES = 0.25
"""Cores taken by others during a turn, or waited for by threads, above which it is disturbed. On two cores it
was 0.16 at most when they were quiet, and 0.5 to 1 beside a busy process, also of niceness 10."""

SPREAD = 1.5
"""Upper over lower quartile of a contestant's turns, above which its timing is disturbed."""


class Timed(Protocol):
    """Interface of a runner that `time_in_turns` times."""

    def turn(self, seconds: float) -> Turn:
        """Times it; raises RunnerError."""

    def close(self) -> None:
        """Ends it, as one that failed may still run."""


@dataclass
class Timing:
    """Turns of one contestant."""

    turns: list[Turn] = field(default_factory=list)
    error: str = ""
    """What ended it, "" where nothing did."""
    wanted: int = 1
    """Undisturbed turns that it should have."""

    @property
    def quiet(self) -> list[Turn]:
        """Undisturbed turns."""
        return [turn for turn in self.turns if not is_disturbed(turn)]

    @property
    def disturbed(self) -> bool:
        """Whether fewer than half of the wanted turns are undisturbed, or these differ too much."""
        quiet = [turn.latency_s for turn in self.quiet]
        if 2 * len(quiet) < min(self.wanted, len(self.turns)):
            return True
        if len(quiet) < 4:
            return False
        lower, _, upper = statistics.quantiles(quiet, method="inclusive")
        return upper > SPREAD * lower

    @property
    def samples_s(self) -> list[float]:
        """Latency of each undisturbed turn; of every turn where the timing is disturbed."""
        return [turn.latency_s for turn in (self.turns if self.disturbed else self.quiet)]

    @property
    def spent_s(self) -> float:
        return sum(turn.wall_s for turn in self.turns)

    def due(self, repeats: int, fastest_s: float, limit_s: float) -> bool:
        """Whether it needs a turn, when `fastest_s` is the shortest latency of all."""
        least_s = min((turn.latency_s for turn in self.turns), default=0.0)
        slow = least_s > SLOW_RATIO * fastest_s
        self.wanted = min(SLOW_TURNS, repeats) if slow else repeats
        if self.error or len(self.quiet) >= self.wanted or len(self.turns) >= EXTRA * self.wanted:
            return False
        return not self.turns or self.spent_s <= (min(SLOW_BUDGET_S, limit_s) if slow else limit_s)


def is_disturbed(turn: Turn) -> bool:
    """Whether other work took part of the cores during the turn, or kept threads waiting for one."""
    return max(turn.others_s, turn.waited_s) > DISTURBED_CORES * turn.wall_s


def time_in_turns(
    contestants: Sequence[Timed], *, repeats: int = 10, seconds: float = TURN_S, limit_s: float = LIMIT_S
) -> list[Timing]:
    """Times contestants in turns, so that changes of the machine's speed affect all of them alike.

    Each round starts with another contestant. A disturbed turn is repeated in a later round.

    Args:
        contestants: those to time, all of them idle.
        repeats: undisturbed turns of each contestant.
        seconds: calls of a turn take so long, but a turn has at least one.
        limit_s: no contestant gets a turn after its turns took so long together, but each gets one.

    Returns the timing of each, in order. Raises ValueError without repeats.
    """
    if repeats < 1:
        raise ValueError(f"repeats={repeats}: give at least one")
    timings = [Timing() for _ in contestants]
    for number in range(EXTRA * repeats):
        fastest_s = min((turn.latency_s for timing in timings for turn in timing.turns), default=0.0)
        due = [n for n, timing in enumerate(timings) if timing.due(repeats, fastest_s, limit_s)]
        if not due:
            break
        first = number % len(due)
        for place in due[first:] + due[:first]:
            try:
                timings[place].turns.append(contestants[place].turn(seconds))
            except RunnerError as error:
                timings[place].error = str(error)
                contestants[place].close()
    return timings
