"""Tests of the dry run, which compiles programs and simulates their latencies."""

import re
import shutil
from dataclasses import dataclass, replace

import pytest
import tvm
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.hardware import UnfitHardwareError, named_hardware
from foretune.dataset.measure import (
    ExecutorConfig,
    ExecutorConfigError,
    MeasureConfig,
    MeasureJob,
    make_executor,
)
from foretune.dataset.measure.executors.dry_run import simulated_latency_s
from foretune.dataset.measure.worker import toolchain
from foretune.dataset.records.schema import FailureKind
from hypothesis import given
from hypothesis import strategies as st
from support.programs import DoubledOnCuda, Sleeps, Tripled, checked, doubled_on_cuda, job

H100 = parse_target("nvidia/nvidia-h100")
MEASURE = MeasureConfig(build_timeout_s=120.0)
DRY = ExecutorConfig(kind="dry_run")
LARGE_BLOCKS = 65536
LARGE_BYTES = 2 * 4 * 1024 * LARGE_BLOCKS
"""Bytes that `doubled_on_cuda(LARGE_BLOCKS)` reads and writes."""


@dataclass(frozen=True)
class MeasuredLike:
    """Outcome of a measurement, by its latency alone."""

    latency_s: float


def test_cuda_programs_are_compiled_and_their_latency_is_made_up():
    with make_executor(DRY, H100, MEASURE, workers=1) as executor:
        assert re.fullmatch("dry run of .*H100.*", executor.hardware().name)
        on_gpu, again, broken, slow = executor.measure(
            [
                checked(DoubledOnCuda, task="a"),
                job(DoubledOnCuda, task="a"),
                MeasureJob("no module"),
                job(DoubledOnCuda, best_latency_s=1e-12, task="b"),
            ]
        )
    assert on_gpu.simulated and on_gpu.failure is None
    assert len(on_gpu.run_secs) == MEASURE.repeats
    assert on_gpu.run_secs == again.run_secs
    # 8 KiB at 3 TB/s, at most 16 times, plus a launch of 2 us.
    assert 2e-6 < on_gpu.latency_s < 2.1e-6
    assert on_gpu.build_s > (0.05 if shutil.which("nvcc") else 0)
    assert broken.failure is FailureKind.BUILD_ERROR
    assert slow.cut_short and slow.simulated


def test_an_unscheduled_program_does_not_build_for_a_gpu():
    """It has no kernel: its loops would run on the CPU, over the GPU's memory."""
    unscheduled = to_task(Dense(rows=8, in_features=8, out_features=8)).mod
    with make_executor(DRY, H100, MEASURE, workers=1) as executor:
        (outcome,) = executor.measure([MeasureJob(tvm.ir.save_json(unscheduled), task="a")])
    assert outcome.failure is FailureKind.BUILD_ERROR
    assert "the program has no kernel; bind its loops to threads" in outcome.message


def test_programs_of_this_cpu_are_compiled_and_never_run():
    with make_executor(DRY, parse_target("llvm"), MEASURE, workers=1) as executor:
        (outcome,) = executor.measure([job(Sleeps)])
    assert outcome.simulated and outcome.latency_s < 1.0


def test_a_dry_run_imitates_a_described_device_that_can_run_the_target(tmp_path):
    described = replace(named_hardware("h100"), name="A board")
    (tmp_path / "board.json").write_text(described.to_json())
    board = replace(DRY, hardware=str(tmp_path / "board.json"))
    with make_executor(board, H100, MEASURE, workers=1) as executor:
        assert executor.hardware() == replace(described, name="dry run of A board")
    with pytest.raises(UnfitHardwareError, match="cannot run programs of the target"):
        make_executor(board, parse_target("llvm"), MEASURE, workers=1)


@given(st.floats(0, 10), st.integers(0, 16**16 - 1))
def test_a_simulated_latency_lies_between_the_roofline_and_16_times_it(bound_s, key):
    latency_s = simulated_latency_s(bound_s, f"{key:016x}")
    assert 2e-6 + bound_s <= latency_s * (1 + 1e-12)
    assert latency_s <= (2e-6 + 16 * bound_s) * (1 + 1e-12)


def test_a_simulated_latency_by_hand():
    assert simulated_latency_s(1.0, "8000000000000000") == pytest.approx(4.000002)  # 16 to the power 1/2
    assert simulated_latency_s(1.0, "0000000000000000") == pytest.approx(1.000002)


def test_a_machine_without_a_cuda_compiler_is_told_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(toolchain, "_toolkits", lambda: iter([tmp_path]))
    with pytest.raises(ExecutorConfigError, match="cuda_compiler=nvcc: not found; install the CUDA 13"):
        toolchain.compiler_environment(H100, "nvcc")


def test_a_toolkit_is_found_by_its_files(monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvcc").touch()
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setattr(toolchain, "_has_nvrtc", lambda: False)
    environment = toolchain.compiler_environment(H100, "auto")
    assert environment["TVM_CUDA_COMPILE_MODE"] == "nvcc"
    assert environment["CUDA_PATH"] == str(tmp_path)
    assert environment["PATH"] == f"{tmp_path}/bin:/bin"
    # A compiler process must not open a context on a GPU.
    assert environment["CUDA_VISIBLE_DEVICES"] == ""


def test_nvrtc_comes_before_nvcc(monkeypatch, tmp_path):
    for file in ("bin/nvcc", "include/cuda_fp16.h"):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).touch()
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "_has_nvrtc", lambda: True)
    assert toolchain.cuda_environment("auto")["TVM_CUDA_COMPILE_MODE"] == "nvrtc"
    assert toolchain.cuda_environment("nvcc")["TVM_CUDA_COMPILE_MODE"] == "nvcc"


def test_a_cpu_target_needs_no_toolkit(monkeypatch):
    monkeypatch.setattr(toolchain, "_toolkits", lambda: iter(()))
    assert "CUDA_PATH" not in toolchain.compiler_environment(parse_target("llvm"), "auto")


def test_local_cuda_without_a_device_is_refused():
    import tvm

    if tvm.cuda().exist:
        pytest.skip("there is a CUDA device")
    with pytest.raises(ExecutorConfigError, match="no CUDA device here"):
        make_executor(ExecutorConfig(), H100, MEASURE, workers=1)


def check_copies(small, large, again, hardware) -> None:
    """Timings of a copy of 8 KiB and two of the same 512 MiB, beside what the device's memory can do."""
    share = LARGE_BYTES / large.latency_s / (hardware.bandwidth_gbs * 1e9)
    assert 0.5 < share < 1.1  # of the measured bandwidth
    assert large.latency_s > 20 * small.latency_s
    assert 0.5 < again.latency_s / large.latency_s < 2


def test_the_check_of_copies_refuses_what_no_device_does():
    """At 3350 GB/s, 512 MiB take 160 us."""
    h100 = named_hardware("h100")
    seconds = LARGE_BYTES / (h100.bandwidth_gbs * 1e9)
    fine = [MeasuredLike(latency) for latency in (3e-6, 1.2 * seconds, 1.3 * seconds)]
    check_copies(*fine, h100)
    for number, latency_s in ((0, seconds), (1, 0.1 * seconds), (1, 10 * seconds), (2, 10 * seconds)):
        wrong = [*fine]
        wrong[number] = MeasuredLike(latency_s)
        with pytest.raises(AssertionError):
            check_copies(*wrong, h100)


@pytest.mark.gpu
def test_programs_are_checked_and_timed_on_a_gpu():
    if not tvm.cuda().exist:
        pytest.skip("no CUDA device")
    copy = doubled_on_cuda(LARGE_BLOCKS)
    with make_executor(ExecutorConfig(), parse_target("cuda"), MEASURE, workers=2) as executor:
        small, wrong, large, again = executor.measure(
            [
                checked(DoubledOnCuda),
                checked(DoubledOnCuda, Tripled),
                job(copy, keep_built=True),
                job(copy, keep_built=True),
            ]
        )
        assert executor.hardware().kind == "cuda"
        check_copies(small, large, again, executor.hardware())
    assert [one.failure for one in (small, large, again)] == [None] * 3
    assert wrong.failure is FailureKind.WRONG_OUTPUT
