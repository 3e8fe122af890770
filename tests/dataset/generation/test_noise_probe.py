"""Tests of the noise probe: detection of disturbances, repeated measurements, and real load."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tvm
from foretune.compiler.tvm_compat import available_cores, parse_target
from foretune.dataset.generation import noise_probe
from foretune.dataset.generation.noise_probe import NoiseConfig, NoiseConfigError, NoiseProbe, probe_module
from foretune.dataset.generation.testbed import Testbed
from foretune.dataset.generation.throughput import GenerationClock, per_minute
from foretune.dataset.measure import MeasureJob, MeasureOutcome
from foretune.dataset.records.schema import FailureKind
from support.fake_executor import FakeExecutor

TARGET = parse_target({"kind": "llvm", "num-cores": 2})
QUIET_S = 1e-3
PROBE_LENGTH = (1 << 17) * 2


@pytest.fixture(autouse=True)
def every_probe_is_due(monkeypatch):
    monkeypatch.setattr(noise_probe, "_MAX_AGE_S", 0.0)


def scripted(ratios):
    """Probe outcomes: quiet for the first probes, then these ratios, then quiet."""
    script = iter([1.0] * 5 + list(ratios))

    def probe(job):
        ratio = next(script, 1.0)
        return (
            MeasureOutcome((QUIET_S * ratio,) * 3) if ratio else MeasureOutcome(failure=FailureKind.RUN_ERROR)
        )

    return probe


def latencies(*seconds):
    script = iter(seconds)

    def answer(job):
        latency = next(script)
        if isinstance(latency, MeasureOutcome):
            return latency
        return MeasureOutcome((latency,))

    return answer


def measure(answer, probe, jobs=1, **noise):
    executor = FakeExecutor(answer, probe)
    testbed = Testbed(executor, TARGET, NoiseConfig(**noise))
    testbed._ratio(0)  # runs the first, quiet probes
    return testbed, testbed.measure([MeasureJob(f"m{n}") for n in range(jobs)], device=0)


def test_a_quiet_batch_is_measured_once():
    testbed, (measured,) = measure(latencies(2e-3), scripted([1.0, 1.1]))
    assert (measured.outcome.latency_s, measured.disturbed) == (2e-3, False)
    assert measured.probe_ratio == pytest.approx(1.1)
    assert testbed.repeated == 0


@pytest.mark.parametrize("around", [[1.5, 1.0], [1.0, 1.5]])
def test_a_batch_next_to_a_slow_probe_is_measured_again_and_the_shorter_kept(around):
    testbed, measured = measure(latencies(4e-3, 2e-3, 3e-3, 5e-3), scripted(around), jobs=2)
    assert [m.outcome.latency_s for m in measured] == [3e-3, 2e-3]
    assert not any(m.disturbed for m in measured)
    assert measured[0].probe_ratio == pytest.approx(1.0)
    assert testbed.repeated == 2


def test_what_stays_disturbed_is_marked():
    _, (measured,) = measure(latencies(4e-3, 5e-3), scripted([2.0, 1.8, 1.3, 1.6]))
    assert measured.disturbed
    assert measured.outcome.latency_s == 4e-3
    assert measured.probe_ratio == pytest.approx(1.6)


def test_without_retries_a_disturbed_batch_is_only_marked():
    testbed, (measured,) = measure(latencies(4e-3), scripted([2.0, 2.0]), retries=0)
    assert measured.disturbed
    assert len(testbed.executor.asked) == 1


def test_failures_and_programs_cut_short_are_not_measured_again():
    failed = MeasureOutcome(failure=FailureKind.RUN_ERROR)
    slow = MeasureOutcome((1.0,), cut_short=True)
    testbed, measured = measure(latencies(failed, slow, 2e-3, 1e-3), scripted([2.0, 2.0, 2.0, 2.0]), jobs=3)
    assert [job.module for job in testbed.executor.asked] == ["m0", "m1", "m2", "m2"]
    assert [m.disturbed for m in measured] == [False, True, True]


def test_what_is_not_measured_again_keeps_the_noise_of_its_own_batch():
    failed = MeasureOutcome(failure=FailureKind.RUN_ERROR)
    slow = MeasureOutcome((1.0,), cut_short=True)
    late = MeasureOutcome(failure=FailureKind.RUN_TIMEOUT)
    _, measured = measure(latencies(failed, slow, late, 2e-3, 1e-3), scripted([4.0, 4.0, 1.0, 1.02]), jobs=4)
    assert [m.probe_ratio for m in measured] == pytest.approx([4.0, 4.0, 4.0, 1.02])
    assert [m.disturbed for m in measured] == [False, True, True, False]


def test_a_probe_that_fails_says_nothing():
    _, (measured,) = measure(latencies(2e-3), scripted([0, 0]))
    assert (measured.probe_ratio, measured.disturbed) == (None, False)


def test_without_a_probe_nothing_is_said():
    executor = FakeExecutor(latencies(2e-3))
    (measured,) = Testbed(executor, TARGET, NoiseConfig(probe=False)).measure([MeasureJob("m")], device=0)
    assert (measured.probe_ratio, measured.disturbed) == (None, False)


@pytest.mark.parametrize("overlap", [False, True])
def test_no_batch_comes_between_another_and_its_probes_where_they_take_turns(overlap):
    calls = []

    def note(job):
        calls.append((threading.get_ident(), job.keep_built))
        time.sleep(0.01)
        return MeasureOutcome((QUIET_S,))

    testbed = Testbed(FakeExecutor(note, note, batches_overlap=overlap), TARGET, NoiseConfig())
    testbed._ratio(0)
    calls.clear()
    with ThreadPoolExecutor(2) as lanes:
        for _ in range(6):
            lanes.submit(testbed.measure, [MeasureJob("m")], device=0)
    batches = [calls[n : n + 3] for n in range(0, len(calls), 3)]
    alone = [[probe for _, probe in batch] for batch in batches] == [[True, False, True]] * 6 and all(
        len({thread for thread, _ in batch}) == 1 for batch in batches
    )
    assert alone != overlap


def test_the_quiet_latency_is_a_low_quantile_of_each_device():
    seconds = iter([*range(20, 30), 10])
    probe = NoiseProbe(FakeExecutor(probe=lambda job: MeasureOutcome((float(next(seconds)),))), TARGET)
    ratios = [probe.ratio(0) for _ in range(7)]
    # After five first probes (20 to 24) and 25 to 29, the quantile of ten is the lowest.
    assert ratios[:6] == pytest.approx([24 / 20, 25 / 20, 26 / 20, 27 / 20, 28 / 20, 29 / 20])
    # Of eleven probes, including a fast outlier, it is the second lowest.
    assert ratios[6] == pytest.approx(10 / 20)
    with pytest.raises(StopIteration):
        probe.ratio(1)


def test_a_recent_probe_still_counts(monkeypatch):
    monkeypatch.setattr(noise_probe, "_MAX_AGE_S", 60.0)
    answers = []

    def count(job):
        answers.append(job.device)
        return MeasureOutcome((QUIET_S,))

    probe = NoiseProbe(FakeExecutor(probe=count), TARGET)
    assert [probe.ratio(0), probe.ratio(0), probe.ratio(3)] == [1.0, 1.0, 1.0]
    assert answers == [0] * 5 + [3] * 5


@pytest.mark.parametrize("field, value", [("threshold", 1.0), ("retries", -1)])
def test_settings_that_cannot_be_are_named(field, value):
    with pytest.raises(NoiseConfigError, match=rf"noise\.{field}={value}"):
        NoiseConfig(**{field: value})


def test_the_reference_program_computes_its_polynomial():
    module = probe_module(TARGET)
    compiled = tvm.compile(module, target=TARGET).jit()
    data = np.linspace(-0.9, 0.9, PROBE_LENGTH, dtype=np.float32)
    result = tvm.runtime.tensor(np.zeros(PROBE_LENGTH, np.float32))
    compiled["main"](tvm.runtime.tensor(data), result)
    expected = data.astype(np.float64)
    for _ in range(64):
        expected = expected * data + 0.5
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-6)


def test_the_reference_program_of_a_gpu_is_bound_to_its_threads():
    text = probe_module(parse_target("nvidia/nvidia-a100")).script()
    assert 'thread_binding(256, thread="threadIdx.x")' in text.replace("T.", "")


@pytest.mark.slow
def test_load_on_every_core_shows():
    """Timed in this process, as a worker may have priority over the load and would not be disturbed.

    Each repeat lasts longer than a scheduler leaves a process its core, so that no repeat runs undisturbed.
    What they are compared with is the best of many short ones: other tests may load the machine meanwhile.
    """
    compiled = tvm.compile(probe_module(TARGET), target=TARGET).jit()
    arrays = [tvm.runtime.tensor(np.ones(PROBE_LENGTH, np.float32)) for _ in range(2)]
    short = compiled.time_evaluator("main", tvm.cpu(), number=1, repeat=300, min_repeat_ms=1)
    long = compiled.time_evaluator("main", tvm.cpu(), number=1, repeat=1, min_repeat_ms=100)
    evaluate = short
    executor = FakeExecutor(probe=lambda job: MeasureOutcome(tuple(evaluate(*arrays).results)))
    probe = NoiseProbe(executor, TARGET)
    assert probe.ratio(0) > 0
    burners = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4 * available_cores())
    ]
    try:
        time.sleep(1.0)
        evaluate = long
        shows = any(probe.ratio(0) > NoiseConfig().threshold for _ in range(3))
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    assert shows


def test_the_time_of_a_batch_is_that_of_its_programs():
    clock = GenerationClock()
    clock.measured([MeasureOutcome((1.0,), build_s=4.0, run_s=2.0), MeasureOutcome((1.0,), run_s=1.0)])
    clock.measured([MeasureOutcome((1.0,), build_s=3.0, run_s=1.0)])
    assert (clock.seconds["timing"], clock.seconds["building"]) == (4.0, 7.0)
    assert clock.shares()["building"] == pytest.approx(7 / 11)
    assert per_minute(11, 60.0) == 11.0
    assert per_minute(1, 0.0) == 0.0
