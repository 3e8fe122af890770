"""One turn of a timing: priming, repeats, and the counters beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
from foretune.inference.deploy import turn as subject
from foretune.inference.deploy.timing import is_disturbed
from foretune.inference.deploy.turn import timed_turn


class _Clock:
    """Clock that only a call moves, in place of the time module; the process uses two cores."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return 2 * self.now

    def sleep(self, seconds: float) -> None:
        """Threads are asleep at once."""


class _Meter:
    """Meter of a machine on which others use `others` cores."""

    def __init__(self, clock: _Clock, others: float = 0.0) -> None:
        self._clock, self._others = clock, others

    def read(self) -> tuple[float, float, float, float]:
        now = self._clock.now
        return now, 2 * now, (2 + self._others) * now, 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    clock = _Clock()
    monkeypatch.setattr(subject, "time", clock)
    return clock


def calls(clock: _Clock, *seconds: float) -> tuple[list[float], object]:
    """A call that takes these times, the last one for ever, and the list of those that it took."""
    taken: list[float] = []

    def call() -> None:
        takes = seconds[min(len(taken), len(seconds) - 1)]
        taken.append(takes)
        clock.now += takes

    return taken, call


def test_the_first_call_primes_and_the_median_of_the_others_counts(clock: _Clock) -> None:
    taken, call = calls(clock, 0.9, 0.0625, 0.25, 0.125)
    turn = timed_turn(call, 0.4, meter=_Meter(clock))  # type: ignore[arg-type]
    assert taken == [0.9, 0.0625, 0.25, 0.125]  # the last one begins within 0.4 s
    assert (turn.latency_s, turn.calls) == (0.125, 3)
    assert turn.wall_s == pytest.approx(0.9 + 0.4375)
    assert turn.own_s == pytest.approx(2 * turn.wall_s) and turn.others_s == pytest.approx(0.0)


def test_a_slow_call_counts_at_once(clock: _Clock) -> None:
    taken, call = calls(clock, 4.0)
    assert timed_turn(call, 0.2, meter=_Meter(clock)).latency_s == 4.0  # type: ignore[arg-type]
    assert taken == [4.0]


def test_time_of_others_on_a_simulated_clock(clock: _Clock) -> None:
    quiet, busy = (
        timed_turn(calls(clock, 0.01)[1], 0.2, meter=_Meter(clock, others))  # type: ignore[arg-type]
        for others in (0.05, 0.5)
    )
    assert quiet.others_s == pytest.approx(0.05 * quiet.wall_s) and not is_disturbed(quiet)
    assert busy.others_s == pytest.approx(0.5 * busy.wall_s) and is_disturbed(busy)


def test_calls_run_inside_what_is_given() -> None:
    entered: list[bool] = [False]

    @contextmanager
    def around():
        entered[0] = True
        yield
        entered[0] = False

    seen: list[bool] = []
    timed_turn(lambda: seen.append(entered[0]), 0.0, around=around)
    assert seen == [True, True] and not entered[0]


def test_a_turn_ends_when_the_threads_of_the_process_sleep() -> None:
    """The call leaves a thread behind that spins for 0.3 s, as thread pools do.

    A thread that other work keeps from the cores looks asleep, so that one turn of three has to see it.
    """
    assert any(_ends_after_its_thread() for _ in range(3))


def _ends_after_its_thread() -> bool:
    spinning: list[threading.Thread] = []

    def spin() -> None:
        end = time.perf_counter() + 0.3
        while time.perf_counter() < end:
            pass

    def call() -> None:
        if not spinning:
            spinning.append(threading.Thread(target=spin))
            spinning[0].start()

    timed_turn(call, 0.0)
    return not spinning[0].is_alive()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the counters are Linux's")
def test_busy_processes_on_all_cores_are_recognised() -> None:
    def call() -> None:
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass

    command = [sys.executable, "-c", "print(flush=True)\nwhile True: pass"]
    busy = [
        subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2 * len(os.sched_getaffinity(0)))
    ]
    try:
        for process in busy:
            assert process.stdout is not None
            process.stdout.readline()
        turn = timed_turn(call, 0.3)
    finally:
        for process in busy:
            process.kill()
            process.communicate()
    assert is_disturbed(turn)
    assert turn.waited_s > 0.1 * turn.wall_s
