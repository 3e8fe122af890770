"""Measurement of batches between noise probes, repeated after a disturbance, and the self-check of a run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import Lock

import tvm
from tvm.target import Target

from ...compiler.operators import Dense, to_task
from ...compiler.replay import candidate_module_json
from ...errors import UserError
from ..measure import Executor, MeasureJob, MeasureOutcome
from ..measure.machine_errors import BatchEndedError, DevicesLostError, check_machine, machine_problem
from ..records.schema import FailureKind
from ..sampling.programs import RandomSampler, SamplerSetting
from .noise_probe import NoiseConfig, NoiseProbe
from .throughput import GenerationClock


@dataclass(frozen=True)
class ProbedOutcome:
    """Outcome with the noise at its time; `probe_ratio` is None without a probe."""

    outcome: MeasureOutcome
    probe_ratio: float | None
    disturbed: bool


class Testbed:
    """Devices of a run with their noise probe; several threads may use it, also for one device.

    If the executor does not overlap batches, threads take turns here. This keeps each batch between its own
    probes, and waiting time does not count as measuring time.
    """

    __test__ = False  # keeps pytest from collecting the class

    def __init__(
        self, executor: Executor, target: Target, noise: NoiseConfig, clock: GenerationClock | None = None
    ) -> None:
        self.executor = executor
        self.target = target
        self.hardware = executor.hardware()
        self.clock = clock or GenerationClock()
        self.repeated = 0
        """Number of repeated measurements."""
        self._noise = noise
        self._probe = NoiseProbe(executor, target) if noise.probe else None
        self._turn: AbstractContextManager[object] = nullcontext() if executor.batches_overlap else Lock()

    def measure(self, jobs: Sequence[MeasureJob], device: int) -> list[ProbedOutcome]:
        """Measure jobs; returns one measurement for each, in order.

        A repeated candidate keeps the shorter latency, because disturbances only add time. Candidates that
        failed or were cut short are not repeated, because a few percent do not change their result. They keep
        the ratio of their own batch; a program that was cut short or timed out under noise is marked.

        Raises BatchEndedError if the machine fails programs, devices are lost or the executor was told to
        end; its outcomes are measurements.
        """
        with self._turn:
            return self._measure(jobs, device)

    def _measure(self, jobs: Sequence[MeasureJob], device: int) -> list[ProbedOutcome]:
        try:
            outcomes, ratio = self._between_probes(jobs, device)
        except BatchEndedError as ended:
            kept = [outcome and ProbedOutcome(outcome, None, False) for outcome in ended.outcomes]
            raise BatchEndedError(kept, ended.reason) from ended
        ratios = [ratio] * len(outcomes)
        for _ in range(self._noise.retries):
            again = [number for number, outcome in enumerate(outcomes) if _is_timed(outcome)]
            if not self._is_disturbed(ratio) or not again:
                break
            self.repeated += len(again)
            try:
                repeated, ratio_again = self._between_probes([jobs[number] for number in again], device)
            except BatchEndedError:
                break  # the measurements so far stay, marked as disturbed
            ratio = min(filter(None, (ratio, ratio_again)))
            for number, outcome in zip(again, repeated, strict=True):
                outcomes[number] = min(outcomes[number], outcome, key=lambda outcome: outcome.latency_s)
                ratios[number] = ratio
        return [
            ProbedOutcome(outcome, ratio, self._is_disturbed(ratio) and _depends_on_time(outcome))
            for outcome, ratio in zip(outcomes, ratios, strict=True)
        ]

    def _between_probes(
        self, jobs: Sequence[MeasureJob], device: int
    ) -> tuple[list[MeasureOutcome], float | None]:
        """Outcomes of a batch, and the larger ratio of the probes before and after it."""
        try:
            before = self._ratio(device)
        except (BatchEndedError, DevicesLostError) as ended:
            raise BatchEndedError([None] * len(jobs), getattr(ended, "reason", ended)) from ended
        try:
            outcomes = self.executor.measure(jobs)
        except DevicesLostError as lost:
            raise BatchEndedError(lost.outcomes, lost) from lost
        self.clock.measured(outcomes)
        check_machine(outcomes)
        try:
            behind = self._ratio(device)
        except (BatchEndedError, DevicesLostError):
            behind = None  # the next batch finds the same state
        return outcomes, max(filter(None, (before, behind)), default=None)

    def _ratio(self, device: int) -> float | None:
        if self._probe is None:
            return None
        with self.clock.stage("probing"):
            return self._probe.ratio(device)

    def _is_disturbed(self, ratio: float | None) -> bool:
        return ratio is not None and ratio > self._noise.threshold


def _is_timed(outcome: MeasureOutcome) -> bool:
    return outcome.failure is None and not outcome.cut_short


def _depends_on_time(outcome: MeasureOutcome) -> bool:
    return outcome.failure in (None, FailureKind.RUN_TIMEOUT)


_PROGRAMS = 4


class SelfCheckError(UserError, RuntimeError):
    """The executor fails to measure a small program correctly."""


def check_measurement(executor: Executor, target: Target) -> None:
    """Measure a few programs of a small dense layer against its reference.

    One success is enough, as random programs may exceed the device's limits. A wrong output always fails.
    Raises SelfCheckError, MachineError.
    """
    task = to_task(Dense(rows=32, in_features=64, out_features=64, epilogue="bias_relu"))
    sampler = RandomSampler(SamplerSetting(task, target, per_round=_PROGRAMS, seed=0))
    reference = tvm.ir.save_json(task.mod)
    jobs = [
        MeasureJob(candidate_module_json(candidate), reference=reference)
        for _, candidate in sampler.propose()
    ]
    outcomes = executor.measure(jobs)
    if (problem := machine_problem(outcomes)) is not None:
        raise problem
    failed = [outcome for outcome in outcomes if outcome.failure is not None]
    wrong = [outcome for outcome in failed if outcome.failure is FailureKind.WRONG_OUTPUT]
    if wrong or len(failed) == len(outcomes):
        shown = next(iter(wrong or failed), None)
        cause = f"{shown.failure.value}: {shown.message}" if shown and shown.failure else "no valid program"
        raise SelfCheckError(
            f"target={target}: the self-check could not measure {task.name} ({cause}); fix this first, "
            "or skip the check with self_check=false"
        )
    if all(outcome.unchecked for outcome in outcomes if outcome.failure is None):
        raise SelfCheckError(
            f"target={target}: the unscheduled program of {task.name} failed, so that no output is compared; "
            "fix this first, or skip the check with self_check=false"
        )
