"""Latencies without a schedule that are known only when the library is written."""

from __future__ import annotations

import math

from foretune.inference.run.untuned_tasks import with_untuned
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
