"""Other work of the machine during a measurement."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from foretune.inference.bolt.advice import other_work
from foretune.inference.bolt.advice.other_work import OtherWork


class Counters:
    """A meter with given readings."""

    def __init__(self, *readings: tuple[float, float, float, float]) -> None:
        self.left: Iterator[Any] = iter(readings)

    def read(self) -> tuple[float, float, float, float]:
        found: tuple[float, float, float, float] = next(self.left)
        return found


@pytest.mark.parametrize(
    ("wall_s", "busy_s", "own_s", "disturbed"),
    [
        (10.0, 18.0, 18.0, False),  # its own processes use both cores
        (10.0, 18.0, 16.0, False),  # others use a fifth of a core
        (10.0, 18.0, 8.0, True),  # others use one core
        (0.2, 0.4, 0.0, False),  # too short for the counters
    ],
)
def test_others_are_all_work_but_that_of_this_process_and_its_children(
    monkeypatch: Any, wall_s: float, busy_s: float, own_s: float, disturbed: bool
) -> None:
    work = OtherWork()
    work._meter = Counters((100.0, 0, 7.0, 0), (100.0 + wall_s, 0, 7.0 + busy_s, 0))  # type: ignore[assignment]
    used = iter([3.0, 3.0 + own_s])
    monkeypatch.setattr(other_work, "_tree_s", lambda: next(used))
    with work.watched():
        pass
    assert work.just_now == work.ever == disturbed


def test_a_quiet_time_does_not_undo_a_disturbed_one(monkeypatch: Any) -> None:
    work = OtherWork()
    work._meter = Counters((0, 0, 0, 0), (1, 0, 1, 0), (1, 0, 1, 0), (2, 0, 1, 0))  # type: ignore[assignment]
    monkeypatch.setattr(other_work, "_tree_s", lambda: 0.0)
    with work.watched():
        pass
    assert work.just_now and work.ever
    with work.watched():
        pass
    assert not work.just_now and work.ever


def test_the_cpu_time_of_children_is_counted() -> None:
    before = other_work._tree_s()
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-S", "-c", burn], check=True)
    assert other_work._tree_s() - before > 0.25
