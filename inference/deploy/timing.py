"""Latency of contestants, timed in turns; disturbed turns are repeated."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ...compiler.host.meter import DISTURBED_CORES
from .runners import RunnerError
from .turn import Turn

TURN_S = 0.2
"""Seconds of calls in a turn: enough for counters with a resolution of 10 ms."""

LIMIT_S = 10.0
"""Total seconds of turns after which a contestant gets no further turn."""

SLOW_RATIO, SLOW_TURNS = 10.0, 3
"""A contestant over SLOW_RATIO times slower than the fastest gets only SLOW_TURNS turns."""

SLOW_BUDGET_S = 4.0
"""Total seconds of turns after which such a slow contestant gets no further turn."""

EXTRA = 2
"""Most turns of a contestant, over the number of turns wanted."""

SPREAD = 1.5
"""Ratio of the upper to the lower quartile of a contestant's turns above which its timing is disturbed."""


class Timed(Protocol):
    """Interface of a runner that `time_in_turns` times."""

    def turn(self, seconds: float) -> Turn:
        """Times the contestant; raises RunnerError."""

    def close(self) -> None:
        """Ends the contestant, which may still run after a failure."""


@dataclass
class Timing:
    """Turns of one contestant."""

    turns: list[Turn] = field(default_factory=list)
    error: str = ""
    """Reason why the turns ended early, or ""."""
    wanted: int = 1
    """Number of undisturbed turns wanted."""

    @property
    def quiet(self) -> list[Turn]:
        """Undisturbed turns."""
        return [turn for turn in self.turns if not is_disturbed(turn)]

    @property
    def disturbed(self) -> bool:
        """Whether fewer than half of the wanted turns are undisturbed, or these turns differ too much."""
        quiet = [turn.latency_s for turn in self.quiet]
        if 2 * len(quiet) < min(self.wanted, len(self.turns)):
            return True
        if len(quiet) < 4:
            return False
        lower, _, upper = statistics.quantiles(quiet, method="inclusive")
        return upper > SPREAD * lower

    @property
    def samples_s(self) -> list[float]:
        """Latency of each undisturbed turn, or of every turn if the timing is disturbed."""
        return [turn.latency_s for turn in (self.turns if self.disturbed else self.quiet)]

    @property
    def spent_s(self) -> float:
        return sum(turn.wall_s for turn in self.turns)

    def due(self, repeats: int, fastest_s: float, limit_s: float) -> bool:
        """Whether the contestant needs another turn; `fastest_s` is the shortest latency of all."""
        least_s = min((turn.latency_s for turn in self.turns), default=0.0)
        slow = least_s > SLOW_RATIO * fastest_s
        self.wanted = min(SLOW_TURNS, repeats) if slow else repeats
        if self.error or len(self.quiet) >= self.wanted or len(self.turns) >= EXTRA * self.wanted:
            return False
        return not self.turns or self.spent_s <= (min(SLOW_BUDGET_S, limit_s) if slow else limit_s)


def is_disturbed(turn: Turn) -> bool:
    """Whether other work used part of the cores during the turn, or kept threads waiting for one."""
    return max(turn.others_s, turn.waited_s) > DISTURBED_CORES * turn.wall_s


def time_in_turns(
    contestants: Sequence[Timed], *, repeats: int = 10, seconds: float = TURN_S, limit_s: float = LIMIT_S
) -> list[Timing]:
    """Times contestants in turns, so that changes of the machine's speed affect all of them equally.

    Each round starts with a different contestant. A disturbed turn is repeated in a later round.

    Args:
        contestants: idle contestants to time.
        repeats: undisturbed turns of each contestant.
        seconds: duration of the calls in a turn; a turn has at least one call.
        limit_s: total seconds of turns after which a contestant gets no further turn; each gets at least
            one.

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
