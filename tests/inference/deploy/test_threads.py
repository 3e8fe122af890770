"""TVM's thread pools: one that is new, one that is bound, one that is too small."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import tvm_ffi
from foretune.compiler.tvm_compat import available_cores, configure_thread_pool
from foretune.inference.deploy import threads as subject
from foretune.inference.deploy.threads import PoolOfThread, ThreadsError, checked_threads, process_cores

pytestmark = pytest.mark.skipif(available_cores() < 2, reason="pools differ from two cores on")
linux = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads are bound on Linux alone")


def count() -> int:
    """Threads of the calling thread's pool, which is made if there is none."""
    return int(tvm_ffi.get_global_func("runtime.NumThreads")())


def in_new_thread(function: Callable[[], Any]) -> Any:
    """Result of a function in a thread that has no pool yet."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(function).result()


def new_threads(before: set[int]) -> list[set[int]]:
    """Cores of each thread of this process that was not there before."""
    now = {int(path.name) for path in Path("/proc/self/task").iterdir()}
    return [os.sched_getaffinity(thread) for thread in now - before]


def thread_numbers() -> set[int]:
    return {int(path.name) for path in Path("/proc/self/task").iterdir()}


@linux
def test_a_new_pool_has_the_wanted_threads_and_binds_none() -> None:
    def found() -> tuple[int, list[set[int]], set[int]]:
        before = thread_numbers()
        made = configure_thread_pool(2, process_cores())
        return made, new_threads(before), os.sched_getaffinity(0)

    made, workers, own = in_new_thread(found)
    assert made == 2 and workers == [set(process_cores())] and own == set(process_cores())


@linux
def test_a_bound_pool_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_NUM_THREADS", "2")
    monkeypatch.delenv("TVM_BIND_THREADS", raising=False)

    def found() -> tuple[list[set[int]], list[set[int]]]:
        before = thread_numbers()
        count()  # as TVM makes it at the first parallel program
        bound = new_threads(before)
        configure_thread_pool(2, process_cores())
        return bound, new_threads(before)

    bound, freed = in_new_thread(found)
    assert len(bound[0]) == 1 and freed == [set(process_cores())]


def test_a_pool_that_is_too_small_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_NUM_THREADS", "1")

    def found() -> int:
        count()
        return configure_thread_pool(2, process_cores())

    assert in_new_thread(found) == 1


def test_calls_run_in_the_thread_whose_pool_fits() -> None:
    def found() -> tuple[bool, int, int]:
        pool = PoolOfThread(2)
        return pool.in_own_thread, pool.run(threading.get_ident), threading.get_ident()

    own, ran, here = in_new_thread(found)
    assert own and ran == here


def test_calls_leave_a_thread_whose_pool_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_NUM_THREADS", "1")

    def found() -> tuple[bool, int, int, int]:
        count()
        pool = PoolOfThread(2)
        return pool.in_own_thread, pool.run(threading.get_ident), threading.get_ident(), pool.run(count)

    own, ran, here, threads = in_new_thread(found)
    assert not own and ran != here and threads == 2


@linux
def test_calls_leave_a_thread_that_is_kept_on_one_core() -> None:
    def found() -> tuple[bool, set[int], set[int]]:
        first = {min(process_cores())}
        os.sched_setaffinity(0, first)
        pool = PoolOfThread(2)
        return pool.in_own_thread, pool.run(lambda: os.sched_getaffinity(0)), os.sched_getaffinity(0)

    own, ran, here = in_new_thread(found)
    assert not own and ran == set(process_cores()) and len(here) == 1


def test_all_other_threads_share_one() -> None:
    pool = in_new_thread(lambda: PoolOfThread(2))
    ran = {in_new_thread(lambda: pool.run(threading.get_ident)) for _ in range(3)}
    assert len(ran) == 1


def test_pools_of_two_sizes_take_turns_in_one_thread() -> None:
    def found() -> list[int]:
        one, two = PoolOfThread(1), PoolOfThread(2)
        return [pool.run(count) for pool in (two, one, two)]

    # The pool of a thread whose first network has one thread never has two.
    assert in_new_thread(found) == [2, 1, 2]


def test_the_further_thread_serves_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    further = ThreadPoolExecutor(1, initializer=subject._use_all_cores)
    monkeypatch.setattr(subject, "_FURTHER_THREAD", further)
    one, two = (in_new_thread(lambda n=n: PoolOfThread(n)) for n in (1, 2))
    assert [pool.run(count) for pool in (one, two, one)] == [1, 2, 1]
    further.shutdown()


def test_the_environment_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_BIND_THREADS", "0")
    before = dict(os.environ)
    in_new_thread(lambda: configure_thread_pool(1, process_cores()))
    assert dict(os.environ) == before


def test_an_error_of_a_call_reaches_the_caller() -> None:
    pool = in_new_thread(lambda: PoolOfThread(2))
    with pytest.raises(ZeroDivisionError):
        pool.run(lambda: 1 // 0)


def test_threads_are_those_of_the_tuning_at_most_one_a_core() -> None:
    cores = len(process_cores())
    assert checked_threads(None, None) == cores
    assert checked_threads(None, 1) == 1
    assert checked_threads(None, cores + 5) == cores
    assert checked_threads(2, 1) == 2


@pytest.mark.parametrize("threads", [0, -1, 10_000, True, 1.5])
def test_threads_that_cannot_be_are_named(threads: Any) -> None:
    with pytest.raises(ThreadsError, match=rf"threads={threads}: this process may use \d+ cores; give 1 to"):
        checked_threads(threads, None)
