"""The executor of CUDA devices on two emulated ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from foretune.dataset.measure import MeasureJob
from foretune.dataset.operators import Dense, to_task
from foretune.dataset.records import FailureKind
from support.cuda_emulation import EmulatedGpu, unavailable_reason
from support.cuda_programs import random_programs
from support.emulated_devices import measure, measure_and_lose_a_device
from support.programs import DoubledOnCuda, Tripled, checked

DEVICES, PROGRAMS = 2, 6

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gpus(tmp_path_factory) -> Iterator[EmulatedGpu]:
    """A process with two devices, which starts the executor."""
    if reason := unavailable_reason():
        pytest.skip(reason)
    with EmulatedGpu(tmp_path_factory.mktemp("devices"), DEVICES) as gpus:
        yield gpus


@pytest.fixture(scope="module")
def jobs() -> list[MeasureJob]:
    """Programs whose outputs are compared with the unscheduled task's, and one with a wrong output."""
    task = to_task(Dense(rows=32, in_features=32, out_features=32))
    programs = [checked(mod, task.mod) for mod in random_programs(task, PROGRAMS)]
    return [*programs, checked(DoubledOnCuda), checked(DoubledOnCuda, Tripled)]


def test_two_devices_share_the_work_and_measure_nothing_twice(gpus, jobs, tmp_path):
    outcomes, loaded = gpus.call(measure, tmp_path, DEVICES, jobs)
    assert [outcome.failure for outcome in outcomes] == [None] * (len(jobs) - 1) + [FailureKind.WRONG_OUTPUT]
    assert {outcome.device for outcome in outcomes} == {0, 1}
    assert len({line.split()[0] for line in loaded}) == DEVICES
    texts = Counter(line.split()[1] for line in loaded)
    # The last two jobs are one program with two references.
    assert sorted(texts.values()) == [1] * PROGRAMS + [2]


def test_a_device_that_dies_loses_nothing(gpus, jobs, tmp_path):
    first, again = gpus.call(measure_and_lose_a_device, tmp_path, DEVICES, jobs[:PROGRAMS])
    died = [outcome for outcome in first if outcome.failure is not None]
    # The program on the dead device has a cause, and every other a latency.
    assert len(died) <= 1 and all(outcome.failure == FailureKind.WORKER_DIED for outcome in died)
    assert [outcome.failure for outcome in again] == [None] * PROGRAMS
