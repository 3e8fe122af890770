"""The executors of CUDA devices on two emulated ones: of this machine, and of a local Ray cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from foretune.compiler.operators import Dense, to_task
from foretune.dataset.measure import ExecutorConfig, MeasureJob, make_executor
from foretune.dataset.records.schema import FailureKind
from foretune.inference.families.registry import families
from support.cuda_emulation import EmulatedGpu, unavailable_reason
from support.cuda_emulation.target import TARGET
from support.cuda_programs import random_programs
from support.emulated_devices import (
    CONFIG,
    device_environment,
    killed_at_first_load,
    loaded,
    loads,
    measure,
    measure_and_lose_a_device,
)
from support.programs import DoubledOnCuda, Tripled, checked
from support.ray_cluster import ray_cluster

DEVICES, PROGRAMS = 2, 6
FAILURES = [None] * (PROGRAMS + 1) + [FailureKind.WRONG_OUTPUT]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gpus(cuda_libraries) -> Iterator[EmulatedGpu]:
    """A process with two devices, which starts the executor."""
    if reason := unavailable_reason():
        pytest.skip(reason)
    with EmulatedGpu(cuda_libraries, DEVICES) as gpus:
        yield gpus


@pytest.fixture(scope="module")
def jobs() -> list[MeasureJob]:
    """Programs of a family of two tasks, whose outputs are checked, and two more, one of them wrong."""
    tasks = [to_task(Dense(rows=32, in_features=32, out_features=extent)) for extent in (32, 64)]
    assert len(families(tasks, "loop_nest")) == 1
    programs = [
        checked(mod, task.mod) for task in tasks for mod in random_programs(task, PROGRAMS // len(tasks))
    ]
    return [*programs, checked(DoubledOnCuda), checked(DoubledOnCuda, Tripled)]


def test_two_devices_share_a_family_and_measure_nothing_twice(gpus, cuda_libraries, jobs, tmp_path):
    batches = [jobs[: PROGRAMS // 2], jobs[PROGRAMS // 2 :]]
    outcomes = gpus.call(measure, tmp_path, cuda_libraries, DEVICES, batches)
    assert [outcome.failure for outcome in outcomes] == FAILURES
    assert {outcome.device for outcome in outcomes} == {0, 1}
    assert len({process for process, _ in loaded(tmp_path)}) == DEVICES
    # The last two jobs are one program with two references.
    assert loads(tmp_path) == [1] * PROGRAMS + [2]


def test_a_device_that_dies_loses_nothing(gpus, cuda_libraries, jobs, tmp_path):
    outcomes = gpus.call(measure_and_lose_a_device, tmp_path, cuda_libraries, DEVICES, jobs[:PROGRAMS])
    assert [outcome.failure for outcome in outcomes] == [None] * PROGRAMS
    # What was on the device at its death is measured again, and nothing else.
    assert loads(tmp_path) in ([1] * PROGRAMS, [1] * (PROGRAMS - 1) + [2])


@pytest.fixture
def cluster(cuda_libraries, tmp_path) -> Iterator[None]:
    """A Ray cluster whose processes have two devices; what they load is noted in `tmp_path`."""
    pytest.importorskip("ray", reason="Ray is an extra")
    if reason := unavailable_reason():
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in device_environment(tmp_path, cuda_libraries, DEVICES).items():
            patch.setenv(name, value)
        with ray_cluster(num_cpus=DEVICES, num_gpus=DEVICES):
            yield


def test_a_ray_cluster_gives_the_same_results_and_loses_nothing_with_a_device(cluster, jobs, tmp_path):
    with make_executor(ExecutorConfig(kind="ray"), TARGET, CONFIG, workers=1) as executor:
        assert executor.devices == DEVICES
        until = time.monotonic() + 120
        while len(executor._running()) < DEVICES:  # jobs are shared among the devices that are there
            assert time.monotonic() < until
            time.sleep(0.1)
        with killed_at_first_load(tmp_path, lambda: executor.actor_pids[0]):
            outcomes = executor.measure(jobs)
    assert [outcome.failure for outcome in outcomes] == FAILURES
    # The half that was given to the dead device is measured again, as far as it was measured, and no other.
    share = len(jobs) // DEVICES
    assert len(jobs) <= len(loaded(tmp_path)) <= len(jobs) + share
    assert max(loads(tmp_path)) <= 3  # two references, and once again
