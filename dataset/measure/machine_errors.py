"""Failures of the machine, which do not depend on the program that encountered them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from typing import Any

from ...errors import UserError
from .job import MeasureOutcome
from .worker.process import WorkerStartError

_CAUSES = (
    (
        re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE),
        "no space left on the disk of {scratch}; free some, or set TMPDIR to another folder",
    ),
    (
        re.compile(
            r"CUDA_ERROR_UNSUPPORTED_PTX_VERSION|unsupported toolchain|CUDA_ERROR_NO_BINARY_FOR_GPU|"
            r"no kernel image is available|driver version is insufficient|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
            re.IGNORECASE,
        ),
        "the NVIDIA driver cannot load the compiled code; `nvidia-smi` shows the CUDA version of the driver: "
        "update it, or set CUDA_PATH to a toolkit of that version or executor.cuda_compiler=nvrtc",
    ),
)


class MachineError(UserError, RuntimeError):
    """The machine fails all programs: its disk is full, or its driver is too old."""


class BatchEndedError(Exception):
    """A batch ended before all of its programs were measured.

    `outcomes` has one entry for each job, None for a program that was not measured. `reason` is the error
    that ended the batch, None if the executor was told to end it.
    """

    def __init__(self, outcomes: Sequence[Any], reason: Exception | None = None) -> None:
        super().__init__(str(reason or "the run ends"))
        self.outcomes = outcomes
        self.reason = reason


class DevicesLostError(WorkerStartError):
    """All devices or all compiler processes are lost; `outcomes` has None for unmeasured programs."""

    def __init__(self, message: str, outcomes: Sequence[MeasureOutcome | None]) -> None:
        super().__init__(message)
        self.outcomes = outcomes


def check_machine(outcomes: Sequence[MeasureOutcome]) -> None:
    """Raise BatchEndedError, with the other outcomes, if programs failed for a reason of the machine."""
    problem = machine_problem(outcomes)
    if problem is not None:
        kept = [None if _cause(outcome) else outcome for outcome in outcomes]
        raise BatchEndedError(kept, problem)


def machine_problem(outcomes: Sequence[MeasureOutcome]) -> MachineError | None:
    """Error for a failure of the machine among outcomes, with the next step."""
    cause = next(filter(None, map(_cause, outcomes)), None)
    return None if cause is None else MachineError(f"{cause}; then run the same command again to continue")


def _cause(outcome: MeasureOutcome) -> str | None:
    """Cause and remedy of a failure of the machine, None for other outcomes."""
    if outcome.failure is None:
        return None
    known = (text for pattern, text in _CAUSES if pattern.search(outcome.message))
    cause = next(known, None)
    return None if cause is None else cause.format(scratch=tempfile.gettempdir())
