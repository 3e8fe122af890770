"""TVM's thread pool for networks that run in a user's process.

TVM keeps one pool for each thread that calls it. The thread's first parallel program creates the pool,
which never grows. By default, the pool has half of the cores, and each of its threads is bound to a core,
which may be the core of the calling thread. `PoolOfThread` runs calls on a pool of the requested size
without bound threads. It does not change the environment, so later processes are unaffected.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from ...compiler.tvm_compat import available_cores, configure_thread_pool
from ...errors import UserError
from ...wording import counted

_THREADS = Path("/proc/self/task")
_Result = TypeVar("_Result")


class ThreadsError(UserError, ValueError):
    """The process cannot run this many threads at once."""


def process_cores() -> list[int]:
    """Numbers of the cores that this process may use.

    The function asks all threads, because TVM's pool keeps the thread that created it on the cores of the
    pool.
    """
    if not hasattr(os, "sched_getaffinity") or not _THREADS.exists():
        return list(range(available_cores()))
    cores: set[int] = set()
    for thread in _THREADS.iterdir():
        try:
            cores |= os.sched_getaffinity(int(thread.name))
        except ProcessLookupError:  # it has ended
            continue
    return sorted(cores)


def checked_threads(threads: int | None, tuned: int | None) -> int:
    """Number of threads for running a network.

    Args:
        threads: the caller's choice; None uses as many as the network was tuned for, but at most one per
            core.
        tuned: cores that the network was tuned for, or None if unknown.

    Raises ThreadsError.
    """
    cores = len(process_cores())
    if threads is None:
        return min(tuned or cores, cores)
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= cores:
        raise ThreadsError(
            f"threads={threads!r}: this process may use {counted(cores, 'core')}; give 1 to "
            f"{cores}, or None for as "
            "many as the network was tuned for"
        )
    return threads


class PoolOfThread:
    """Runs functions in a thread with a TVM pool of `threads` threads that are not bound to cores.

    This is the thread that creates the object, if its pool has this many threads or can get them. All other
    threads share one additional thread, and so does the creating thread if its pool is too small: several
    pools at once would compete for the cores.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        at_home = _may_use_all_cores() and _is_configured(threads)
        self._home = threading.get_ident() if at_home else None

    @property
    def in_own_thread(self) -> bool:
        """Whether calls from the thread that created this object run in that thread."""
        return self._home is not None

    def run(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """Calls the function and returns its result."""
        if threading.get_ident() == self._home and _is_configured(self._threads):
            return function(*arguments)
        return _FURTHER_THREAD.submit(_run_configured, self._threads, function, arguments).result()


_state = threading.local()


def _is_configured(threads: int) -> bool:
    """Sets the calling thread's pool to `threads` threads; returns False if the pool is too small."""
    if getattr(_state, "threads", None) != threads:
        found = configure_thread_pool(threads, process_cores())
        _state.threads = threads if found == threads else None
    return bool(_state.threads == threads)


def _may_use_all_cores() -> bool:
    return not hasattr(os, "sched_getaffinity") or sorted(os.sched_getaffinity(0)) == process_cores()


def _use_all_cores() -> None:
    """Gives the calling thread all cores, and a pool that serves any number of threads."""
    cores = process_cores()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)  # of the calling thread alone
    _is_configured(len(cores))


_FURTHER_THREAD = ThreadPoolExecutor(1, "foretune-load", initializer=_use_all_cores)
"""Thread for calls that cannot run in their own thread; the first such call starts it."""


def _run_configured(threads: int, function: Callable[..., _Result], arguments: tuple[Any, ...]) -> _Result:
    _is_configured(threads)
    return function(*arguments)
