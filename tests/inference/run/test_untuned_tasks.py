"""Latencies without a schedule that are known only when the library is written."""

from __future__ import annotations

import math
import time
from types import SimpleNamespace

import pytest
from foretune.inference.run.profiling import StageClock
from foretune.inference.run.reporting import untuned_timed
from foretune.inference.run.untuned_tasks import with_untuned
from rich.console import Console
from support.results import make_task


def test_an_alternative_counts_with_the_calls_that_it_replaces() -> None:
    names = ("pad", "conv", "fails", "winograd", "fused", "joined")
    results = [make_task(name=name, workload_hash=name, untuned_latency_s=None) for name in names]
    known = {"pad": 0.25, "conv": 0.5, "fails": math.inf, "winograd": None}
    found = with_untuned(results, known, {"winograd": ["conv", "pad"], "fused": ["conv", "fails"]})
    assert [task.untuned_latency_s for task in found] == [0.25, 0.5, None, 0.75, None, None]
    assert [task.name for task in found] == list(names)


def test_a_latency_that_is_not_given_stays() -> None:
    (found,) = with_untuned([make_task(workload_hash="a", untuned_latency_s=0.125)], {"b": 1.0}, {})
    assert found.untuned_latency_s == 0.125


@pytest.mark.parametrize(
    ("budget_s", "elapsed_s", "another"), [(None, 1e6, True), (60.0, 5.9, True), (60.0, 6.1, False)]
)
def test_a_tenth_of_the_budget_limits_what_is_timed_for_the_report(
    budget_s: float | None, elapsed_s: float, another: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    class Tuner:
        leaves_untuned = True

        def time_untuned(self, in_time):  # type: ignore[no-untyped-def]
            clock[0] += elapsed_s
            assert in_time() is another
            return {"a": 0.5}

    run = SimpleNamespace(
        config=SimpleNamespace(budget_s=budget_s), watch=StageClock(), console=Console(quiet=True)
    )
    assert untuned_timed(run, Tuner()) == {"a": 0.5}  # type: ignore[arg-type]
    assert untuned_timed(run, SimpleNamespace(leaves_untuned=False)) == {}  # type: ignore[arg-type]
