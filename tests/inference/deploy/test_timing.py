"""Contestants that are timed in turns, on scripted turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat

import pytest
from foretune.inference.deploy import timing as subject
from foretune.inference.deploy.runners import RunnerError
from foretune.inference.deploy.timing import Timing, is_disturbed, time_in_turns
from foretune.inference.deploy.turn import Turn

BUSY = 0.9
"""Cores that others use in a disturbed turn."""


def turn(latency_s: float, others: float = 0.05) -> Turn:
    """A turn of at least 0.2 s."""
    wall_s = max(0.2, latency_s)
    return Turn(latency_s, 1, wall_s, own_s=2 * wall_s, others_s=others * wall_s, waited_s=0.0)


class Scripted:
    """Contestant that plays turns, the last of them for ever."""

    def __init__(self, *turns: Turn, log: Callable[[], object] = lambda: None) -> None:
        self._turns: Iterator[Turn] = chain(turns, repeat(turns[-1]))
        self._log = log

    def turn(self, seconds: float) -> Turn:
        self._log()
        return next(self._turns)

    def close(self) -> None:
        raise AssertionError("nothing failed")


class Dying:
    """Contestant that dies in its second turn."""

    def __init__(self) -> None:
        self._turns = iter([turn(0.01)])
        self.closed = False

    def turn(self, seconds: float) -> Turn:
        for found in self._turns:
            return found
        raise RunnerError("killed by signal 9")

    def close(self) -> None:
        self.closed = True


def test_contestants_take_turns_and_rounds_rotate() -> None:
    order: list[str] = []
    contestants = [Scripted(turn(0.01), log=lambda name=name: order.append(name)) for name in "abc"]
    timings = time_in_turns(contestants, repeats=3)
    assert "".join(order) == "abc" + "bca" + "cab"
    assert [timing.samples_s for timing in timings] == [[0.01] * 3] * 3
    assert not any(timing.disturbed for timing in timings)


def test_a_disturbed_turn_is_repeated_and_does_not_count() -> None:
    disturbed = Scripted(turn(0.01), turn(0.5, BUSY), turn(0.03, BUSY), turn(0.012))
    timing, quiet = time_in_turns([disturbed, Scripted(turn(0.02))], repeats=3)
    assert timing.samples_s == [0.01, 0.012, 0.012] and not timing.disturbed
    assert len(quiet.turns) == 3  # the other contestant is not timed again


def test_a_timing_that_stays_disturbed_is_marked_and_ends() -> None:
    (timing,) = time_in_turns([Scripted(turn(0.5, BUSY))], repeats=4)
    assert timing.disturbed
    assert timing.samples_s == [0.5] * (4 * subject.EXTRA)


def test_half_of_the_wanted_turns_are_enough() -> None:
    noisy = [turn(0.5, BUSY)] * 6
    (enough,) = time_in_turns([Scripted(turn(0.01), turn(0.01), *noisy)], repeats=4)
    (few,) = time_in_turns([Scripted(turn(0.01), turn(0.5, BUSY))], repeats=4)
    assert not enough.disturbed and enough.samples_s == [0.01, 0.01]
    assert few.disturbed and len(few.samples_s) == 8


def test_turns_that_differ_too_much_are_disturbed_though_no_counter_says_so() -> None:
    steady, unsteady = (
        time_in_turns([Scripted(*map(turn, latencies))], repeats=4)[0]
        for latencies in ([0.010, 0.011, 0.012, 0.013], [0.010, 0.010, 0.020, 0.020])
    )
    assert not steady.disturbed and unsteady.disturbed


def test_contestants_far_behind_the_fastest_get_few_turns() -> None:
    """50 ms is over SLOW_RATIO times 1 ms, 8 ms is not; one run of 27 s is over SLOW_BUDGET_S."""
    contestants = [Scripted(turn(latency_s)) for latency_s in (1e-3, 8e-3, 0.05, 27.0)]
    counts = [len(timing.samples_s) for timing in time_in_turns(contestants, repeats=6)]
    assert counts == [6, 6, subject.SLOW_TURNS, 1]


def test_time_limits_the_turns_but_each_contestant_has_one() -> None:
    (timing,) = time_in_turns([Scripted(turn(4.0))], repeats=50, limit_s=9.0)
    assert timing.samples_s == [4.0] * 3 and not timing.disturbed  # begun at 0, 4 and 8 seconds
    (once,) = time_in_turns([Scripted(turn(4.0))], repeats=50, limit_s=0.0)
    assert once.samples_s == [4.0]


def test_a_contestant_that_dies_is_told_and_the_others_go_on() -> None:
    dying = Dying()
    died, other = time_in_turns([dying, Scripted(turn(0.02))], repeats=3)
    assert dying.closed
    assert died.error == "killed by signal 9" and died.samples_s == [0.01]
    assert other.samples_s == [0.02] * 3


def test_a_contestant_without_turns_is_not_disturbed() -> None:
    assert not Timing().disturbed and Timing().samples_s == []


@pytest.mark.parametrize(
    ("others_s", "waited_s", "disturbed"), [(0.03, 0.03, False), (0.1, 0.0, True), (0.0, 0.1, True)]
)
def test_a_turn_is_disturbed_by_others_on_the_cores(
    others_s: float, waited_s: float, disturbed: bool
) -> None:
    found = Turn(0.01, 20, wall_s=0.2, own_s=0.3, others_s=others_s, waited_s=waited_s)
    assert is_disturbed(found) is disturbed


def test_no_repeats_are_an_error() -> None:
    with pytest.raises(ValueError, match="repeats=0"):
        time_in_turns([], repeats=0)
