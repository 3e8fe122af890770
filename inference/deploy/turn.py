"""One turn of a timing: a primed and repeated call, with counters that reveal a disturbance.

A process that runs a network uses this module, which works without TVM.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from ...compiler.host.meter import Meter

PRIMED_S = 1.0
"""A call that lasts longer than this, in seconds, counts without a priming call."""

_ASLEEP_S, _ASLEEP_SHARE, _ASLEEP_LIMIT_S = 0.005, 0.2, 1.0


@dataclass(frozen=True)
class Turn:
    """Calls of one turn, and the CPU's other activity during the turn."""

    latency_s: float
    """Median latency of the calls."""
    calls: int
    wall_s: float
    """Time from the first priming call to the end of the last call."""
    own_s: float
    """CPU time of the process, summed over its threads."""
    others_s: float
    """CPU time of other processes and other virtual machines on the cores of this process; 0 if the system
    does not report it."""
    waited_s: float
    """Time that ready threads of the process waited for a core; 0 if the system does not report it."""


def timed_turn(
    call: Callable[[], Any],
    seconds: float,
    *,
    meter: Meter | None = None,
    around: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Turn:
    """Calls once to bring data back into the caches, then for `seconds`, but at least once.

    The threads of this process are asleep at the beginning and at the end: engines let their threads spin
    for a while after a call, on cores that the next contestant needs. `around` is entered around the calls.
    """
    meter = meter or Meter()
    wait_until_asleep()
    with around():
        before = meter.read()
        samples = [_timed(call)]
        if samples[0] <= PRIMED_S:
            samples.clear()
            start = time.perf_counter()
            while not samples or time.perf_counter() - start < seconds:
                samples.append(_timed(call))
        wall_s, own_s, busy_s, waited_s = (now - then for now, then in zip(meter.read(), before, strict=True))
    wait_until_asleep()
    return Turn(
        latency_s=statistics.median(samples),
        calls=len(samples),
        wall_s=wall_s,
        own_s=own_s,
        others_s=max(busy_s - own_s, 0.0),
        waited_s=max(waited_s, 0.0),
    )


def wait_until_asleep() -> None:
    """Waits until the threads of this process use almost no CPU time, but at most a second."""
    deadline = time.perf_counter() + _ASLEEP_LIMIT_S
    while time.perf_counter() < deadline:
        before = time.process_time()
        time.sleep(_ASLEEP_S)
        if time.process_time() - before < _ASLEEP_SHARE * _ASLEEP_S:
            return


def _timed(call: Callable[[], Any]) -> float:
    before = time.perf_counter()
    call()
    return time.perf_counter() - before
