"""Self-check of a run: measures programs with known outputs, to detect a broken setup early."""

from __future__ import annotations

import tvm
from tvm.target import Target

from ...compiler.operators import Dense, to_task
from ...compiler.replay import candidate_module_json
from ...errors import UserError
from ..measure import Executor, MeasureJob
from ..measure.machine_errors import machine_problem
from ..records.schema import FailureKind
from ..sampling.programs import RandomSampler, SamplerSetting

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
