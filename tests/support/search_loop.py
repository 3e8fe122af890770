"""Search loops for tests: proposals whose module is their latency, and rounds measured by a function."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from foretune.inference.search.candidate import Candidate, MeasuredCandidate
from foretune.inference.search.loop import RoundBudget, SearchLoop
from foretune.inference.search.measuring import jobs
from foretune.inference.surrogate.shared import own_surrogate


def proposal(score, knob, latency_s, **more):
    embedding = np.array([knob], dtype=np.float32)
    return Candidate(f"{score} {knob}", score, embedding, record="[]", module=str(latency_s), **more)


def loop_of(stop, finalists=0):
    return SearchLoop(stop, finalists, own_surrogate())


def run_round(loop, measure, proposals=(), most=40):
    """Measures a round to its end by `measure` (jobs to outcomes); returns its measurements."""
    loop.start_round(proposals, RoundBudget(most))
    while (batch := loop.next_batch()) is not None:
        loop.learn(batch, measure(jobs(batch, loop.best_s)))
    return loop.measured_in_round


def fastest(measurements: Iterable[MeasuredCandidate]) -> MeasuredCandidate | None:
    """The fastest measured candidate, None where every one failed."""
    found = min(measurements, key=lambda measurement: measurement.latency_s, default=None)
    return found if found is not None and math.isfinite(found.latency_s) else None
