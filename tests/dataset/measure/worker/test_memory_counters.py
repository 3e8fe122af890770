"""Tests of memory-traffic counters: choice of events, missing counters, use in a measurement."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import tvm
from foretune.compiler.codegen.compilation import TIMED, jit
from foretune.compiler.tvm_compat import argument_buffers, parse_target
from foretune.dataset.measure import MeasureConfig, WorkerPool
from foretune.dataset.measure.worker import bench, memory_counters
from foretune.dataset.measure.worker.bench import Bench
from foretune.dataset.measure.worker.counters import CountersUnavailableError, Event
from foretune.dataset.measure.worker.memory_counters import (
    count_fetched_bytes,
    memory_events,
    uncounted_reason,
)
from support.programs import Doubled, job
from support.software_events import TASK_CLOCK_NS, for_real

TARGET = parse_target("llvm")
CONFIG = MeasureConfig(build_timeout_s=60.0, run_timeout_s=5.0)


@pytest.fixture(autouse=True)
def nothing_known():
    caches = (memory_counters.memory_events, memory_counters.uncounted_reason)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.mark.parametrize(
    ("machine", "vendor", "family", "events"),
    [
        ("x86_64", "GenuineIntel", 6, [Event(0, 3)]),
        ("x86_64", "AuthenticAMD", 0x19, [Event(4, 0x4844), Event(4, 0x1F72)]),
        ("x86_64", "AuthenticAMD", 0x17, []),
        ("x86_64", "", 0, []),
        # Last-level cache (2), read operation (0), result miss (1), one byte each.
        ("aarch64", "0x41", 8, [Event(3, 0x10002)]),
    ],
)
def test_each_cpu_has_its_events(monkeypatch, machine, vendor, family, events):
    monkeypatch.setattr(memory_counters, "platform", SimpleNamespace(machine=lambda: machine))
    monkeypatch.setattr(memory_counters, "cpu_vendor_and_family", lambda: (vendor, family))
    assert list(memory_events()) == events


def counts(monkeypatch, answer):
    """Simulate a CPU with two events and 64-byte lines; returns the list of counted events."""
    asked = []

    def count_events(work, events):
        asked.append(events)
        work()
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(memory_counters, "memory_events", lambda: memory_counters._ZEN)
    monkeypatch.setattr(memory_counters, "cache_line_bytes", lambda: 64)
    monkeypatch.setattr(memory_counters, "count_events", count_events)
    return asked


def test_bytes_are_lines_of_all_events(monkeypatch):
    counts(monkeypatch, [3.0, 4.5])
    assert uncounted_reason() == ""
    assert count_fetched_bytes(lambda: None) == 7.5 * 64


def test_a_counter_that_shows_nothing_counts_nothing(monkeypatch):
    counts(monkeypatch, [0.0, 0.0])
    assert count_fetched_bytes(lambda: None) is None


def test_why_not_is_found_out_once(monkeypatch):
    asked = counts(monkeypatch, CountersUnavailableError("not here"))
    assert [uncounted_reason() for _ in range(3)] == ["not here"] * 3
    assert count_fetched_bytes(pytest.fail) is None
    assert len(asked) == 1


def test_a_count_that_fails_later_is_none(monkeypatch):
    counts(monkeypatch, [1.0])
    assert uncounted_reason() == ""
    counts(monkeypatch, CountersUnavailableError("left none free"))
    assert count_fetched_bytes(lambda: None) is None


def test_a_cpu_without_known_events_is_named(monkeypatch):
    monkeypatch.setattr(memory_counters, "cpu_vendor_and_family", lambda: ("HygonGenuine", 24))
    monkeypatch.setattr(memory_counters, "platform", SimpleNamespace(machine=lambda: "x86_64"))
    assert uncounted_reason().endswith(
        "no counter of memory traffic is known for CPUs of HygonGenuine, family 24"
    )


@pytest.fixture(scope="module")
def doubled():
    return jit(Doubled, TARGET), {TIMED: argument_buffers(Doubled)}


def measured(doubled, count=True, config=CONFIG, best_latency_s=float("inf")):
    return Bench(tvm.cpu(), config).measure(*doubled, best_latency_s, None, count)


def test_a_bench_counts_one_more_run_where_it_is_asked_to(monkeypatch, doubled):
    asked = counts(monkeypatch, [100.0, 28.0])
    reply = measured(doubled)
    assert reply["moved_bytes"] == 128 * 64
    assert len(asked) == 2  # the first count determined that counters are available
    assert len(reply["run_secs"]) % CONFIG.repeats == 0
    assert "moved_bytes" not in measured(doubled, count=False)
    assert "moved_bytes" not in measured(doubled, best_latency_s=1e-12)  # cut short
    # After more than half of the time limit, counting could make a valid program fail.
    assert "moved_bytes" not in measured(doubled, config=MeasureConfig(run_timeout_s=1e-9))
    assert len(asked) == 2


def test_a_bench_flushes_before_it_counts_as_before_it_times(monkeypatch, doubled):
    done = []
    monkeypatch.setattr(bench, "uncounted_reason", lambda: "")
    monkeypatch.setattr(bench, "count_fetched_bytes", lambda work: done.append("counted"))
    get = tvm.get_global_func
    monkeypatch.setattr(bench.tvm, "get_global_func", lambda name: done.append(name) or get(name))
    measured(doubled)
    assert done[-2:] == [bench._CPU_FLUSH, "counted"]
    done.clear()
    measured(doubled, config=MeasureConfig(cache_flush=False))
    assert done == ["counted"]


@for_real
def test_a_bench_reads_real_counters(monkeypatch, doubled):
    monkeypatch.setattr(memory_counters, "memory_events", lambda: (TASK_CLOCK_NS,))
    monkeypatch.setattr(memory_counters, "cache_line_bytes", lambda: 1)
    # Nanoseconds take the role of bytes: the run takes some, and less than a second.
    assert 0 < measured(doubled)["moved_bytes"] < 1e9


def test_a_process_counts_where_this_machine_can():
    with WorkerPool(TARGET, CONFIG, workers=1) as pool:
        asked, unasked = pool.measure([job(Doubled, count_bytes=True), job(Doubled)])
    assert asked.failure is None and unasked.moved_bytes is None
    assert (asked.moved_bytes is None) if uncounted_reason() else (asked.moved_bytes > 0)


@pytest.mark.skipif(bool(uncounted_reason()), reason=f"no counters of memory traffic: {uncounted_reason()}")
def test_the_counters_of_this_cpu_see_a_copy():
    source, target = (tvm.runtime.tensor(np.ones(1 << 22, "float32")) for _ in range(2))  # 16 MB each
    tvm.get_global_func("cache_flush_cpu_non_first_arg")(source, source, target)
    moved = count_fetched_bytes(lambda: source.copyto(target))
    assert moved is not None
    # Both buffers are fetched, or only the one that is read; a prefetcher may fetch more.
    assert 0.5 * 2**24 < moved < 4 * 2**24
