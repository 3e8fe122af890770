"""Tests of timing isolation: a core of its own, real-time priority, and their restoration."""

from __future__ import annotations

import os
import threading

import pytest
from foretune.dataset.measure.worker import isolation as module
from foretune.dataset.measure.worker.isolation import isolated_timing, realtime_priority_allowed

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux schedules so")


def test_the_caller_has_one_core_and_gets_all_back():
    before = os.sched_getaffinity(0)
    with isolated_timing():
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before


@pytest.mark.skipif(not realtime_priority_allowed(), reason="this user may not have real-time threads")
def test_every_thread_is_realtime_and_then_leaves_the_machine_to_others():
    stop, number = threading.Event(), []
    other = threading.Thread(target=lambda: (number.append(threading.get_native_id()), stop.wait()))
    other.start()
    try:
        with isolated_timing():
            during = [os.sched_getscheduler(thread) for thread in (0, number[0])]
        after = [os.sched_getscheduler(thread) for thread in (0, number[0])]
    finally:
        stop.set()
        other.join()
    assert during == [os.SCHED_FIFO, os.SCHED_FIFO]
    assert after == [os.SCHED_OTHER, os.SCHED_IDLE]


def test_asking_for_the_priority_does_not_take_it():
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    realtime_priority_allowed()
    assert (os.sched_getscheduler(0), os.sched_getparam(0)) == before


def test_nothing_changes_where_realtime_threads_could_take_the_machine(monkeypatch, tmp_path):
    unlimited = tmp_path / "sched_rt_runtime_us"
    unlimited.write_text("-1\n")
    monkeypatch.setattr(module, "_REALTIME_SHARE", unlimited)
    before = os.sched_getscheduler(0)
    assert not realtime_priority_allowed()
    with isolated_timing():
        assert os.sched_getscheduler(0) == before


def test_a_user_without_the_right_is_timed_all_the_same(monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert not realtime_priority_allowed()
    with isolated_timing():
        pass
