"""Tests of the two-stage pipeline that measures on GPUs, here with this machine's CPU as the device."""

import math
import os
import signal
import sys
import threading
import time

import pytest
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.hardware import named_hardware
from foretune.dataset.measure import MeasureConfig, MeasureJob, WorkerStartError
from foretune.dataset.measure.executors import stages
from foretune.dataset.measure.executors.pipeline import Pipeline
from foretune.dataset.measure.machine_errors import BatchEndedError, DevicesLostError
from foretune.dataset.measure.worker.process import WorkerSpec
from foretune.dataset.records.schema import FailureKind
from support.killed_workers import kill, kill_at
from support.programs import (
    Aborts,
    Doubled,
    DoubledInTiles,
    Segfaults,
    Sleeps,
    Tripled,
    checked,
    job,
)

TARGET = parse_target("llvm")
CONFIG = MeasureConfig(build_timeout_s=60.0, run_timeout_s=5.0)


def pipeline(compilers: int = 1, devices: int = 1, config: MeasureConfig = CONFIG, **device) -> Pipeline:
    return Pipeline(
        config,
        [WorkerSpec("compiler", TARGET, config)] * compilers,
        [WorkerSpec("device", TARGET, config, **device)] * devices,
        lambda: named_hardware("t4"),
    )


@pytest.fixture(scope="module")
def two_devices():
    with pipeline(compilers=2, devices=2) as executor:
        yield executor


def test_every_way_to_fail_has_its_kind_and_spares_its_neighbours(two_devices):
    jobs = [checked(DoubledInTiles), job(Segfaults), checked(Tripled), job(Sleeps), job(Aborts)]
    outcomes = two_devices.measure([*jobs, MeasureJob("no module"), checked(Doubled)])
    kinds = [outcome.failure for outcome in outcomes]
    assert kinds == [
        None,
        FailureKind.WORKER_DIED,
        FailureKind.WRONG_OUTPUT,
        FailureKind.RUN_TIMEOUT,
        FailureKind.WORKER_DIED,
        FailureKind.BUILD_ERROR,
        None,
    ]
    assert "signal 11" in outcomes[1].message
    assert "of 1024 values differ from the unscheduled program" in outcomes[2].message
    assert all(0 < outcomes[number].latency_s < 0.1 and outcomes[number].build_s > 0 for number in (0, 6))


def test_a_reference_that_fails_is_told_once_and_leaves_its_programs_unchecked(two_devices, caplog):
    for _ in range(2):
        outcomes = two_devices.measure([checked(Tripled, reference=Segfaults), checked(Tripled)])
        assert [outcome.failure for outcome in outcomes] == [None, FailureKind.WRONG_OUTPUT]
    (told,) = caplog.messages
    assert "an unscheduled program failed (killed by signal 11" in told and "unchecked" in told


def test_a_device_that_is_asked_for_is_taken(two_devices):
    outcomes = two_devices.measure([job(Doubled, device=number % 2) for number in range(6)])
    assert [outcome.device for outcome in outcomes] == [0, 1, 0, 1, 0, 1]
    with pytest.raises(ValueError, match="device=2: must be from 0 to 1"):
        two_devices.measure([job(Doubled, device=2)])


def test_several_threads_measure_side_by_side(two_devices):
    found = {}

    def measure(device: int) -> None:
        found[device] = two_devices.measure([job(Doubled, device=device) for _ in range(3)])

    threads = [threading.Thread(target=measure, args=(device,)) for device in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {d: [(o.device, o.failure) for o in outcomes] for d, outcomes in found.items()} == {
        0: [(0, None)] * 3,
        1: [(1, None)] * 3,
    }


def test_killed_processes_are_replaced_and_no_candidate_is_blamed(two_devices):
    before = [*two_devices.compiler_pids, *two_devices.device_pids]
    for pid in before:
        kill(pid)
    outcomes = two_devices.measure([checked(DoubledInTiles, device=number % 2) for number in range(4)])
    assert [outcome.failure for outcome in outcomes] == [None] * 4
    assert not set(before) & {*two_devices.compiler_pids, *two_devices.device_pids}


def test_the_work_of_a_killed_process_is_repeated(two_devices, monkeypatch):
    left = kill_at(monkeypatch, "export", "time")
    outcomes = two_devices.measure([job(Doubled), job(Doubled)])
    assert left == []
    assert [outcome.failure for outcome in outcomes] == [None] * 2


def test_what_is_kept_is_built_once(two_devices):
    first = two_devices.measure([job(Doubled, keep_built=True)])[0]
    again = two_devices.measure([job(Doubled, keep_built=True), job(Doubled)])
    assert first.build_s > 0
    assert again[0].build_s == 0 and again[0].failure is None
    assert again[1].build_s > 0


def test_libraries_that_are_not_kept_any_more_leave_the_disk(monkeypatch):
    monkeypatch.setattr(stages, "LIBRARIES_KEPT", 1)
    with pipeline(compilers=2) as executor:
        folder = executor._folder.path
        jobs = [job(program, keep_built=True) for program in (Doubled, DoubledInTiles, Tripled)]
        # Libraries dropped from the kept ones while they wait for the device are still timed.
        outcomes = executor.measure([*jobs, job(Doubled)])
        assert [outcome.failure for outcome in outcomes] == [None] * 4
        assert len(list(folder.glob("*.so"))) == 1
        assert [outcome.failure for outcome in executor.measure(jobs)] == [None] * 3


def test_a_program_far_behind_the_best_runs_once(two_devices):
    slow, fast = two_devices.measure(
        [job(Doubled, best_latency_s=1e-12, task="a"), job(Doubled, best_latency_s=math.inf, task="b")]
    )
    assert slow.cut_short and len(slow.run_secs) == 1
    assert not fast.cut_short


def test_hardware_is_what_the_devices_are(two_devices):
    assert two_devices.hardware() == named_hardware("t4")


def test_a_build_that_takes_too_long_is_stopped():
    hurried = MeasureConfig(build_timeout_s=1e-6)
    with pipeline(config=hurried) as executor:
        (outcome,) = executor.measure([job(Doubled)])
    assert outcome.failure is FailureKind.BUILD_TIMEOUT


def test_without_a_device_measuring_ends_with_an_error():
    nowhere = [WorkerSpec("device", parse_target("nvidia/nvidia-h100"), CONFIG, start_attempts=1)]
    with (
        Pipeline(CONFIG, [WorkerSpec("compiler", TARGET, CONFIG)], nowhere, lambda: None) as executor,
        pytest.raises(WorkerStartError, match="no cuda device"),
    ):
        executor.measure([job(Doubled)])


def test_nothing_runs_after_close():
    executor = pipeline()
    executor.measure([job(Doubled)])
    pids = [*executor.compiler_pids, *executor.device_pids]
    assert len(pids) == 2
    executor.close()
    executor.close()
    assert [pid for pid in pids if os.path.exists(f"/proc/{pid}")] == []  # noqa: PTH110
    with pytest.raises(RuntimeError, match="closed"):
        executor.measure([job(Doubled)])


def test_a_compiler_that_hangs_costs_one_program():
    hurried = MeasureConfig(build_timeout_s=2.0, run_timeout_s=5.0)
    with pipeline(config=hurried) as executor:
        assert executor.measure([job(Doubled)])[0].failure is None
        os.kill(executor.compiler_pids[0], signal.SIGSTOP)
        hanging, next_one = executor.measure([job(Doubled), job(DoubledInTiles)])
    assert hanging.failure is FailureKind.BUILD_TIMEOUT
    assert "no answer within 2 s" in hanging.message
    assert next_one.failure is None


def test_devices_that_disappear_lose_nothing_that_was_measured(monkeypatch, tmp_path):
    """The device process starts again while a folder is there; it stands for a GPU in the machine."""
    (tmp_path / "device").mkdir()
    spec = WorkerSpec(
        "device",
        TARGET,
        CONFIG,
        start_attempts=1,
        settings={"folder": str(tmp_path / "device")},
        module="support.vanishing_device",
        environment={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    with Pipeline(
        CONFIG, [WorkerSpec("compiler", TARGET, CONFIG)], [spec], lambda: named_hardware("t4")
    ) as executor:
        jobs = [job(Doubled), job(DoubledInTiles), job(Tripled), job(Doubled)]
        with pytest.raises(DevicesLostError, match=r"no vanishing device; `nvidia-smi` shows") as lost:
            executor.measure(jobs)
    measured = [outcome is not None for outcome in lost.value.outcomes]
    assert measured.count(True) == 2
    assert all(outcome is None or outcome.failure is None for outcome in lost.value.outcomes)


def test_what_no_compiler_has_begun_is_given_up_at_the_end_of_a_run():
    with pipeline() as executor:
        executor.measure([job(Doubled)])
        compiler = executor.compiler_pids[0]
        os.kill(compiler, signal.SIGSTOP)
        ended = []

        def measure() -> None:
            with pytest.raises(BatchEndedError) as caught:
                executor.measure([job(Doubled), job(DoubledInTiles), job(Tripled)])
            ended.append(caught.value)

        thread = threading.Thread(target=measure)
        thread.start()
        while not any(worker.item for worker in executor._compilers):
            time.sleep(0.01)
        executor.stop_waiting()
        os.kill(compiler, signal.SIGCONT)
        thread.join(60)
        (batch,) = ended
        assert [outcome is not None for outcome in batch.outcomes] == [True, False, False]
        assert batch.reason is None
