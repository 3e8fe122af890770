"""Tests of the counts behind the CPU seconds of a GPU record."""

import sys

import pytest

from benchmarks import gpu_generation
from benchmarks.gpu_generation import Counted

WORK = """
import time
print("first", flush=True)
end = time.monotonic() + 1.0
while time.monotonic() < end:
    pass
print("4 s: 0/8 records, idle from here", flush=True)
time.sleep(1.0)
"""


def test_runnable_processes_and_first_lines_are_counted(monkeypatch):
    monkeypatch.setattr(gpu_generation, "available_cores", lambda: 1)
    counted = Counted([sys.executable, "-c", WORK])
    assert counted.wait(30.0) == 0
    busy_from, idle_from = counted.first("first"), counted.first("records,")
    assert 0 <= busy_from < idle_from
    assert counted.first("no such line") is None
    assert counted.wanted(busy_from, idle_from) > 0.5 > counted.wanted(idle_from + 0.3, idle_from + 1.0)


def test_a_command_that_does_not_end_is_killed():
    counted = Counted([sys.executable, "-c", "import time; time.sleep(600)"])
    assert counted.wait(0.5) != 0


def test_a_failing_command_ends_the_benchmark(monkeypatch):
    monkeypatch.setattr(gpu_generation.Counted, "wait", lambda self, timeout_s: 2)
    with pytest.raises(SystemExit, match="ended with status 2"):
        gpu_generation.generate("float32", 1e-9, ["tasks=no-number"])
