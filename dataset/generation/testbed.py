"""Measures batches for a dataset: between two noise probes, and again where these tell of a disturbance."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import Lock

from tvm.target import Target

from ..measure import Executor, MeasureJob, MeasureOutcome
from .noise_probe import NoiseConfig, NoiseProbe
from .throughput import StageClock


@dataclass(frozen=True)
class Measurement:
    """An outcome and how quiet its moment was: `probe_ratio` is None where no probe ran."""

    outcome: MeasureOutcome
    probe_ratio: float | None
    disturbed: bool


class Testbed:
    """The devices of a run and how quiet they are. One thread a device, or several, may use it.

    Where several do, they wait for each other here if the executor measures one batch after the other: so no
    batch comes between another and its probes, and no waiting counts as measuring.
    """

    __test__ = False  # no test case for pytest, whatever its name

    def __init__(
        self, executor: Executor, target: Target, noise: NoiseConfig, clock: StageClock | None = None
    ) -> None:
        self.executor = executor
        self.target = target
        self.hardware = executor.hardware()
        self.clock = clock or StageClock()
        self.repeated = 0
        """How many measurements were made once more."""
        self._noise = noise
        self._probe = NoiseProbe(executor, target) if noise.probe else None
        self._turn: AbstractContextManager[object] = nullcontext() if executor.batches_overlap else Lock()

    def measure(self, jobs: Sequence[MeasureJob], device: int) -> list[Measurement]:
        """One measurement a job, in order.

        Of a candidate measured again the shorter latency is kept, since a disturbance only ever adds. One
        that failed or was cut short is not measured again: what it says does not hang on a few percent.
        """
        with self._turn:
            return self._measure(jobs, device)

    def _measure(self, jobs: Sequence[MeasureJob], device: int) -> list[Measurement]:
        outcomes, ratio = self._between_probes(jobs, device)
        for _ in range(self._noise.retries):
            again = [number for number, outcome in enumerate(outcomes) if _is_timed(outcome)]
            if not self._is_disturbed(ratio) or not again:
                break
            self.repeated += len(again)
            repeated, ratio_again = self._between_probes([jobs[number] for number in again], device)
            for number, outcome in zip(again, repeated, strict=True):
                outcomes[number] = min(outcomes[number], outcome, key=lambda outcome: outcome.latency_s)
            ratio = min(filter(None, (ratio, ratio_again)))
        disturbed = self._is_disturbed(ratio)
        return [Measurement(outcome, ratio, disturbed and _is_timed(outcome)) for outcome in outcomes]

    def _between_probes(
        self, jobs: Sequence[MeasureJob], device: int
    ) -> tuple[list[MeasureOutcome], float | None]:
        """Outcomes of a batch and the larger ratio of the probes before and after it."""
        before = self._ratio(device)
        start = time.monotonic()
        outcomes = self.executor.measure(jobs)
        self.clock.measured(time.monotonic() - start, outcomes)
        return outcomes, max(filter(None, (before, self._ratio(device))), default=None)

    def _ratio(self, device: int) -> float | None:
        if self._probe is None:
            return None
        with self.clock.stage("probing"):
            return self._probe.ratio(device)

    def _is_disturbed(self, ratio: float | None) -> bool:
        return ratio is not None and ratio > self._noise.threshold


def _is_timed(outcome: MeasureOutcome) -> bool:
    return outcome.failure is None and not outcome.cut_short
