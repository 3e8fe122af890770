"""Tests of Linux counters: real software events, and refused system calls."""

from __future__ import annotations

import ctypes
import errno
import mmap
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from foretune.dataset.measure.worker import counters
from foretune.dataset.measure.worker.counters import (
    CountersUnavailableError,
    Event,
    count_events,
    scale_count,
)
from support.software_events import PAGE_FAULTS, TASK_CLOCK_NS, for_real


def open_files():
    return {file.name for file in Path("/proc/self/fd").iterdir()}


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@for_real
def test_page_faults_of_the_work_are_counted_and_no_others():
    pages = 200

    def touch():
        with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
            for page in range(pages):
                memory[page * mmap.PAGESIZE] = 1

    touched, nothing = count_events(touch, [PAGE_FAULTS]), count_events(lambda: None, [PAGE_FAULTS])
    assert pages <= touched[0] < 2 * pages
    assert nothing[0] < pages / 4


@for_real
def test_a_thread_that_was_there_before_is_counted():
    go, done, end = threading.Event(), threading.Event(), threading.Event()

    def other():
        go.wait()
        spin(0.05)
        done.set()
        end.wait()

    thread = threading.Thread(target=other)
    thread.start()
    try:
        clock, faults = count_events(lambda: (go.set(), done.wait()), [TASK_CLOCK_NS, PAGE_FAULTS])
    finally:
        end.set()
        thread.join()
    assert 0.9 * 0.05e9 < clock < 0.5e9  # the two clocks treat a context switch differently
    assert faults < 1000


@for_real
def test_the_work_runs_once_and_its_errors_pass_and_nothing_stays_open():
    before = open_files()
    runs = []
    count_events(lambda: runs.append(1), [TASK_CLOCK_NS])
    assert runs == [1]
    with pytest.raises(ZeroDivisionError):
        count_events(lambda: 1 / 0, [TASK_CLOCK_NS])
    assert open_files() == before


@for_real
def test_a_thread_that_has_ended_meanwhile_is_left_out(monkeypatch):
    real = counters._system_call

    def gone(number, attributes, thread, *rest):
        if thread == threading.get_native_id():
            return real(number, attributes, thread, *rest)
        ctypes.set_errno(errno.ESRCH)
        return -1

    monkeypatch.setattr(counters, "_system_call", gone)
    monkeypatch.setattr(counters, "_threads", lambda: [threading.get_native_id(), 1])
    assert count_events(lambda: spin(0.01), [TASK_CLOCK_NS])[0] > 0.9 * 0.01e9


def test_a_count_stands_for_the_whole_time():
    assert scale_count(10, enabled_ns=200, running_ns=200) == 10
    assert scale_count(10, enabled_ns=200, running_ns=50) == 40
    assert scale_count(0, enabled_ns=0, running_ns=0) == 0
    with pytest.raises(CountersUnavailableError, match="all counters of the CPU are in use"):
        scale_count(0, enabled_ns=200, running_ns=0)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (errno.ENOENT, r"virtual machine has no such counter \(ENOENT\)"),
        (errno.EACCES, r"\(EACCES\): \S*perf_event_paranoid is 3 and must be 2 or less"),
        (errno.EPERM, r"\(EPERM\): .* a container must allow perf_event_open"),
        (errno.ENOSYS, r"the kernel has no perf_event_open \(ENOSYS\)"),
        (errno.EMFILE, r"Too many open files \(EMFILE\)"),
    ],
)
def test_a_refusal_says_why_and_comes_before_the_work(monkeypatch, tmp_path, code, reason):
    paranoid = tmp_path / "perf_event_paranoid"
    paranoid.write_text("3\n")

    def refuse(*_):
        ctypes.set_errno(code)
        return -1

    monkeypatch.setattr(counters, "_PARANOID", paranoid)
    monkeypatch.setattr(counters, "_system_call", refuse)
    monkeypatch.setattr(counters, "_threads", lambda: [1])
    monkeypatch.setattr(counters, "platform", SimpleNamespace(machine=lambda: "x86_64"))
    with pytest.raises(CountersUnavailableError, match=reason):
        count_events(pytest.fail, [TASK_CLOCK_NS])


def test_other_systems_are_named(monkeypatch):
    monkeypatch.setattr(counters, "sys", SimpleNamespace(platform="darwin"))
    with pytest.raises(CountersUnavailableError, match="need Linux, and this is darwin"):
        count_events(pytest.fail, [TASK_CLOCK_NS])
    monkeypatch.setattr(counters, "_threads", lambda: [1])
    monkeypatch.setattr(counters, "platform", SimpleNamespace(machine=lambda: "riscv64"))
    with pytest.raises(CountersUnavailableError, match="x86_64 and aarch64, not for riscv64"):
        count_events(pytest.fail, [TASK_CLOCK_NS])


def test_the_kernel_is_told_what_to_leave_out(monkeypatch):
    asked = []

    def note(number, attributes, thread, cpu, group, flags):
        asked.append((number, attributes.size, attributes.type, attributes.config, attributes.flags))
        asked.append((thread, cpu, group, flags))
        ctypes.set_errno(errno.ESRCH)
        return -1

    monkeypatch.setattr(counters, "_system_call", note)
    monkeypatch.setattr(counters, "_threads", lambda: [42])
    monkeypatch.setattr(counters, "platform", SimpleNamespace(machine=lambda: "aarch64"))
    assert count_events(lambda: None, [Event(4, 0x1F72)]) == [0.0]
    # 241 on Arm; 64 bytes; disabled (bit 0), without kernel (5) and hypervisor (6); close-on-exec (bit 3).
    assert asked == [(241, 64, 4, 0x1F72, 0b1100001), (42, -1, -1, 0b1000)]
