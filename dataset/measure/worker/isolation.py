"""Isolation of a timing from other work on the same CPU."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_THREADS = Path("/proc/self/task")
_REALTIME_SHARE = Path("/proc/sys/kernel/sched_rt_runtime_us")


@contextmanager
def isolated_timing() -> Iterator[None]:
    """Pin the calling thread to one core and give this process's threads real-time priority."""
    with pinned_to_first_core(), _realtime_priority():
        yield


def realtime_priority_allowed() -> bool:
    """Whether this system and user allow real-time priority, so that `isolated_timing` uses it."""
    if not _realtime_supported():
        return False
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        return False
    os.sched_setscheduler(0, *before)
    return True


@contextmanager
def pinned_to_first_core() -> Iterator[None]:
    """Keep the calling thread on the first core.

    TVM binds the other threads of its pool to the cores after the first and lets the calling thread float. It
    may land on one of their cores and stay for a scheduler tick of 4 ms, which doubles short latencies.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@contextmanager
def _realtime_priority() -> Iterator[None]:
    """Give threads real-time priority if the system allows it, as it does for root.

    A pool thread that wakes on a busy core may wait for the next scheduler tick, even if the other process
    has idle priority: with one such process a core, 0.4 ms became 2.9 ms. A real-time thread gets the core at
    once. Linux reserves 5 % of the time for other work, so a program that never returns can still be killed;
    on systems without this reserve, priorities stay unchanged.

    Afterwards pool threads get idle priority. They poll for work 300,000 times before they sleep, which took
    a sixth of the machine from the building of the next programs.
    """
    if not _realtime_supported():
        yield
        return
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    _schedule({0, *_other_threads()}, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        _schedule({0}, policy, parameters)
        _schedule(_other_threads(), os.SCHED_IDLE, os.sched_param(0))


def _realtime_supported() -> bool:
    try:
        return hasattr(os, "SCHED_FIFO") and int(_REALTIME_SHARE.read_text()) >= 0
    except (OSError, ValueError):
        return False


def _other_threads() -> set[int]:
    return {int(thread.name) for thread in _THREADS.iterdir()} - {threading.get_native_id()}


def _schedule(threads: Iterable[int], policy: int, parameters: os.sched_param) -> None:
    for thread in threads:
        # A thread may have ended, and not every user may set real-time priority.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.sched_setscheduler(thread, policy, parameters)
