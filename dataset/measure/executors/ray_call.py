"""Candidates and outcomes of one call of `RayExecutor.measure`."""

from __future__ import annotations

import json
import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import asdict, replace

from ...records.schema import FailureKind
from ..job import MeasureJob, MeasureOutcome

# Largest number of candidates that an actor gets at once; they are measured again if it dies.
_BATCH = 16
# Number of actor deaths after which a candidate fails, as it probably caused them.
_MAX_DEATHS = 2
_MESSAGE_CHARS = 500


class RayCall:
    """State of one call of `measure`: waiting candidates, and outcomes by job number."""

    def __init__(self, jobs: Sequence[MeasureJob]) -> None:
        self.jobs = jobs
        self.outcomes: dict[int, MeasureOutcome] = {}
        self._waiting = deque(range(len(jobs)))
        self._deaths: Counter[int] = Counter()
        self._best_s: dict[str, float] = {}

    @property
    def done(self) -> bool:
        return len(self.outcomes) == len(self.jobs)

    def next_batch(self, device: int, devices_up: set[int]) -> list[int]:
        """Next job numbers for a device; jobs for an unavailable device go to any device."""
        fitting = [number for number in self._waiting if self._wants(number, devices_up) in (None, device)]
        share = math.ceil(len(fitting) / len(devices_up))
        batch = fitting[: min(_BATCH, share)]
        for number in batch:
            self._waiting.remove(number)
        return batch

    def _wants(self, number: int, devices_up: set[int]) -> int | None:
        wanted = self.jobs[number].device
        return wanted if wanted in devices_up else None

    def to_json(self, batch: Sequence[int]) -> str:
        """Jobs of a batch with the best latencies known so far."""
        jobs = []
        for number in batch:
            job = self.jobs[number]
            best_s = min(job.best_latency_s, self._best_s.get(job.task, math.inf))
            jobs.append(asdict(replace(job, best_latency_s=best_s, device=None)))
        return json.dumps(jobs)

    def accept(self, batch: Sequence[int], reply: str, device: int) -> None:
        """Store an actor's reply; the first outcome of a candidate wins."""
        for number, fields in zip(batch, json.loads(reply), strict=True):
            failure = fields["failure"] and FailureKind(fields["failure"])
            changed = {"run_secs": tuple(fields["run_secs"]), "failure": failure, "device": device}
            outcome = self.outcomes.setdefault(number, MeasureOutcome(**{**fields, **changed}))
            task = self.jobs[number].task
            self._best_s[task] = min(self._best_s.get(task, math.inf), outcome.latency_s)

    def requeue(self, batch: Sequence[int], reason: str, device: int) -> None:
        """Queue the candidates of a dead actor again, or fail those with too many deaths."""
        self._deaths.update(batch)
        for number in reversed(batch):
            if self._deaths[number] <= _MAX_DEATHS:
                self._waiting.appendleft(number)
            else:
                self.outcomes[number] = MeasureOutcome(
                    failure=FailureKind.WORKER_DIED, message=reason[:_MESSAGE_CHARS], device=device
                )
