"""Tests of failures that are the machine's and not the program's."""

import pytest
from foretune.dataset.measure import MeasureOutcome
from foretune.dataset.measure.machine_errors import (
    BatchEndedError,
    MachineError,
    check_machine,
    machine_problem,
)
from foretune.dataset.records.schema import FailureKind

FULL = "OSError: [Errno 28] No space left on device: '/tmp/foretune-1/3.so'"
OLD = "CUDAError: cuModuleLoadData failed: CUDA_ERROR_UNSUPPORTED_PTX_VERSION"


def failed(message: str) -> MeasureOutcome:
    return MeasureOutcome(failure=FailureKind.BUILD_ERROR, message=message)


@pytest.mark.parametrize(
    ("message", "cause", "step"),
    [
        (FULL, "no space left on the disk", "set TMPDIR"),
        (OLD, "driver cannot load", "nvidia-smi"),
        ("CUDA driver version is insufficient for CUDA runtime version", "driver", "CUDA_PATH"),
    ],
)
def test_the_cause_and_the_next_step_are_told(message, cause, step):
    problem = machine_problem([MeasureOutcome((1.0,)), failed(message)])
    assert isinstance(problem, MachineError)
    assert cause in str(problem) and step in str(problem) and "same command again" in str(problem)


def test_other_outcomes_of_the_batch_are_kept():
    outcomes = [MeasureOutcome((1.0,)), failed(FULL), failed("ptxas: too many registers")]
    with pytest.raises(BatchEndedError) as ended:
        check_machine(outcomes)
    assert ended.value.outcomes == [outcomes[0], None, outcomes[2]]
    assert isinstance(ended.value.reason, MachineError)


def test_a_failure_of_a_program_is_none_of_the_machine():
    check_machine([MeasureOutcome((1.0,)), failed("too many resources requested for launch")])
    check_machine([MeasureOutcome((1.0,), message=FULL)])  # a latency is a latency
