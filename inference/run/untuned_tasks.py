"""Latencies without a schedule in the results of a run, which may be measured when its library is written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from .result import TaskResult


def with_untuned(
    results: Sequence[TaskResult],
    untuned_s: Mapping[str, float | None],
    replaces: Mapping[str, Sequence[str]],
) -> list[TaskResult]:
    """Results with their latencies without a schedule.

    The latency of an alternative is the sum over the calls that it replaces, for the speed-up over the
    untuned network, which has no alternatives.

    Args:
        results: results, also of alternatives.
        untuned_s: latency in seconds by workload hash; None or inf if the task does not run.
        replaces: workload hashes of the replaced calls, by the alternative's workload hash.
    """
    finite = {name: s for name, s in untuned_s.items() if s is not None and math.isfinite(s)}
    found: dict[str, float | None] = {name: finite.get(name) for name in untuned_s}
    for name, replaced in replaces.items():
        known = all(one in finite for one in replaced)
        found[name] = sum(finite[one] for one in replaced) if known else None
    return [
        replace(one, untuned_latency_s=found.get(one.workload_hash, one.untuned_latency_s)) for one in results
    ]
