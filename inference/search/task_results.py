"""Result of one task's tuning, from its state at the end of a run."""

from __future__ import annotations

import math
from collections import Counter

from ..run.result import UNTUNED_IS_FASTER, TaskResult
from .task_search import TaskSearch


def task_result(search: TaskSearch) -> TaskResult:
    """The result of a task, with the reason where it has no schedule of its own."""
    task, best_s, known = search.task, search.best_s, search.loop.known
    reason = search.ending.reason
    if math.isinf(best_s) and not reason and not search.ending.predicted:
        reason = (
            "no candidate ran"
            if known
            else "no candidate was found"
            if search.over
            else "the limits of the run left no time for it"
        )
    elif best_s >= search.untuned_s and math.isfinite(best_s):
        reason = UNTUNED_IS_FASTER
    failures = [measurement.outcome.failure for measurement in known if measurement.outcome.failure]
    return TaskResult(
        name=task.name,
        operator=task.operator,
        workload_hash=task.workload_hash,
        weight=task.weight,
        flops=task.flops,
        untuned_latency_s=search.untuned_s if math.isfinite(search.untuned_s) else None,
        tuned_latency_s=best_s if best_s < search.untuned_s else None,
        candidates_scored=search.effort.scored,
        candidates_measured=len(known),
        candidates_failed=len(failures),
        search_s=search.effort.search_s,
        measure_s=search.effort.measure_s,
        predicted_scores=[measurement.predicted_score for measurement in known],
        measured_latencies_s=[measurement.latency_s for measurement in known],
        reason=reason,
        from_database=(search.known_s is not None and not known)
        or (search.ending.predicted and not search.rounds),
        family=search.family,
        parent="" if search.parent is None else search.parent.name,
        parent_hash="" if search.parent is None else search.parent.workload_hash,
        predicted=search.ending.predicted,
        candidates_drafted=search.effort.counts.drafted,
        candidates_tried=search.effort.counts.tried,
        candidates_rejected=dict(search.effort.counts.rejected),
        candidates_proposed=search.effort.counts.proposed,
        failures=dict(Counter(failure.value for failure in failures)),
        alternative=search.is_alternative,
    )
