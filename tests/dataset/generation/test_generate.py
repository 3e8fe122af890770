"""Tests of whole generation runs: records, resume, failures and messages.

Runs with real workers test the measurement. Runs with a fake executor test the handling of given outcomes.
"""

import io
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import fields, replace
from itertools import count as count_from
from pathlib import Path

import numpy as np
import psutil
import pytest
import tvm
from foretune import progress as job_progress
from foretune.compiler.hardware import FROM_PROGRAM
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.spaces.measurable_space import CODE_SIZE
from foretune.compiler.tvm_compat import UnknownTargetError, parse_target
from foretune.configuration import from_hydra
from foretune.dataset import generate
from foretune.dataset.features.dataset import EmptyDatasetError, load_labelled_features
from foretune.dataset.features.table import FeatureTable
from foretune.dataset.generation import noise_probe, progress
from foretune.dataset.generation.config import GenerateConfig, GenerateConfigError
from foretune.dataset.generation.noise_probe import NoiseConfig
from foretune.dataset.generation.runs import read_runs
from foretune.dataset.generation.samplers import InlineSamplers, SamplingFailedError
from foretune.dataset.generation.sampling import SampledRound
from foretune.dataset.generation.testbed import SelfCheckError, check_measurement
from foretune.dataset.measure import ExecutorConfig, MeasureConfig, MeasureOutcome
from foretune.dataset.measure.machine_errors import DevicesLostError, MachineError
from foretune.dataset.records.schema import FailureKind
from foretune.dataset.records.store import RecordStore, StoreError, StoreLockedError
from foretune.dataset.sampling.programs import (
    EvolutionaryConfig,
    ProgramSamplingConfig,
    RandomSampler,
    SamplerSetting,
    SamplingError,
    make_scorer,
)
from foretune.dataset.sampling.tasks import sample_tasks
from foretune.terminal import CommandConsole
from hydra import compose, initialize_config_module
from rich.console import Console
from support.commands import forked_commands
from support.fake_executor import HARDWARE, FakeExecutor
from support.in_this_process import features_in_this_process
from support.killed_workers import ends
from tvm.s_tir import meta_schedule as ms

TASKS = {"sampler": "uniform", "operators": {"dense": 1.0}, "max_flops": 2e6}
QUICK = MeasureConfig(repeats=2, groups=1, build_timeout_s=60.0, run_timeout_s=60.0)
EXPLORE = ProgramSamplingConfig(
    scorer="random", evolutionary=EvolutionaryConfig(population_size=8, generations=1)
)
RANDOM = ProgramSamplingConfig(sampler="random")


def config(folder, **changes):
    defaults = {
        "tasks": 2,
        "records_per_task": 6,
        "per_round": 6,
        "task_sampling": TASKS,
        "program_sampling": EXPLORE,
        "measure": QUICK,
        "datasheet": False,
        "workers": 1,
        "samplers": 0,
    }
    return GenerateConfig(dataset=folder, **{**defaults, **changes})


def quiet_run(run_config):
    return generate.run(run_config, Console(quiet=True))


@pytest.fixture
def fake_run(monkeypatch, tmp_path):
    """Run with a fake executor; returns the summary, the store and the printed text."""

    def run(executor, **changes):
        monkeypatch.setattr(generate, "make_executor", lambda *arguments: executor)
        printed = io.StringIO()
        settings = {"program_sampling": RANDOM, "self_check": False, **changes}
        summary = generate.run(config(tmp_path / "set", **settings), CommandConsole(file=printed, width=200))
        assert executor.closed
        return summary, RecordStore(tmp_path / "set"), printed.getvalue()

    return run


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generate") / "set"
    summary = quiet_run(config(folder))
    assert summary.tasks_done == 2
    assert summary.measured == summary.total_records >= 8
    return folder


def test_records_are_measured_and_described(dataset):
    store = RecordStore(dataset)
    tasks, records = store.tasks(), store.records()
    assert {record.workload_hash for record in records} == {task.workload_hash for task in tasks}
    assert all(0 < record.latency_s < 1 for record in records)
    assert {record.hardware_id for record in records} == set(store.hardware())
    assert {record.sampler for record in records} == {"evolutionary/random"}
    assert not any(record.simulated for record in records)
    assert all(record.probe_ratio > 0.5 for record in records)
    assert len({record.key for record in records}) == len(records)
    assert len(list(dataset.glob("records-*.parquet"))) == 1


def test_the_same_command_measures_nothing_twice(dataset):
    before = RecordStore(dataset).records()
    summary = quiet_run(config(dataset))
    assert summary.measured == 0
    assert RecordStore(dataset).records() == before


def test_asking_for_more_continues(dataset):
    before = {record.key for record in RecordStore(dataset).records()}
    summary = quiet_run(config(dataset, records_per_task=12))
    after = {record.key for record in RecordStore(dataset).records()}
    assert before < after
    assert summary.measured == len(after) - len(before)


def test_features_follow_the_records(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr("foretune.dataset.features.dataset.available_cores", lambda: 1)
    labelled = load_labelled_features(dataset, cache=tmp_path)
    records = sorted((r.workload_hash, r.latency_s) for r in RecordStore(dataset).records() if not r.failure)
    found = zip(labelled.workload_hash.tolist(), labelled.latency_s.tolist(), strict=True)
    assert sorted(found) == records
    assert len(labelled.features) == len(records)
    assert np.isfinite(labelled.features.stores).all()
    assert (np.diff(labelled.features.store_offsets) > 0).all()
    assert set(labelled.operator) == {"dense"}
    again = load_labelled_features(dataset, cache=tmp_path)
    np.testing.assert_array_equal(again.features.decisions, labelled.features.decisions)
    np.testing.assert_array_equal(again.latency_s, labelled.latency_s)


@pytest.fixture
def in_this_process():
    with features_in_this_process():
        yield


def test_a_damaged_cache_is_made_again(dataset, tmp_path, in_this_process):
    labelled = load_labelled_features(dataset, cache=tmp_path)
    damaged, empty = tmp_path.glob("features-*.npz")  # one file for each task
    damaged.write_bytes(damaged.read_bytes()[:100])
    empty.write_bytes(b"")
    again = load_labelled_features(dataset, cache=tmp_path)
    np.testing.assert_array_equal(again.features.stores, labelled.features.stores)
    np.testing.assert_array_equal(again.features.store_offsets, labelled.features.store_offsets)


def test_only_what_is_new_to_a_dataset_is_replayed(dataset, tmp_path, in_this_process):
    whole, cache = RecordStore(dataset), tmp_path / "cache"
    first, second = whole.tasks()
    grown = RecordStore(tmp_path / "grown")

    def grow(task):
        with grown.writing():
            grown.append_tasks([task])
            for hardware in whole.hardware().values():
                grown.put_hardware(hardware)
            grown.append_records([r for r in whole.records() if r.workload_hash == task.workload_hash])

    grow(first)
    load_labelled_features(grown.folder, cache=cache)
    (kept,) = cache.glob("features-*.npz")
    with np.load(kept) as arrays:
        # A feature value that no computation gives shows that the cache was read.
        np.savez(kept, **{**arrays, "instructions": np.full_like(arrays["instructions"], 7.0)})
    grow(second)
    labelled = load_labelled_features(grown.folder, cache=cache)
    assert len(list(cache.glob("features-*.npz"))) == 2
    instructions = labelled.instructions
    assert set(instructions[labelled.workload_hash == first.workload_hash]) == {7.0}
    assert instructions[labelled.workload_hash == second.workload_hash].min() > 7.0


def test_a_device_with_a_higher_peak_needs_no_replay(dataset, tmp_path, monkeypatch, in_this_process):
    store = RecordStore(shutil.copytree(dataset, tmp_path / "set"))
    before = load_labelled_features(store.folder, cache=tmp_path / "cache").features
    (device,) = store.hardware().values()
    faster = replace(device, peak_gflops=4 * device.peak_gflops, frequency_ghz=9.0, details={"new": 1})
    store.put_hardware(faster)
    with monkeypatch.context() as patch:
        patch.setattr("foretune.dataset.features.dataset.process_pool", None)
        cached = load_labelled_features(store.folder, cache=tmp_path / "cache").features
    np.testing.assert_array_equal(cached.hardware, np.tile(faster.features(), (len(before), 1)))
    assert not np.array_equal(cached.hardware, before.hardware)
    replayed = load_labelled_features(store.folder, cache=tmp_path / "other").features
    for field in fields(FeatureTable):
        np.testing.assert_array_equal(getattr(cached, field.name), getattr(replayed, field.name))
        assert getattr(cached, field.name).dtype == getattr(replayed, field.name).dtype


def test_a_cache_that_cannot_be_written_is_no_reason_to_fail(dataset, tmp_path, monkeypatch, in_this_process):
    def full(*arguments, **arrays):
        raise OSError("No space left on device")

    monkeypatch.setattr("foretune.dataset.features.dataset.np.savez", full)
    assert len(load_labelled_features(dataset, cache=tmp_path)) > 0
    assert not list(tmp_path.iterdir())


def test_a_dataset_without_records_has_no_features(dataset, tmp_path):
    store = RecordStore(tmp_path / "empty")
    with store.writing():
        store.append_tasks(RecordStore(dataset).tasks())
    with pytest.raises(EmptyDatasetError, match="foretune generate"):
        load_labelled_features(tmp_path / "empty", cache=tmp_path)


@pytest.fixture
def launch():
    """Start foretune generate in its own process, which ends with the test."""
    started = []

    def start(folder):
        words = [
            f"dataset={folder}",
            "tasks=3",
            "records_per_task=400",
            "per_round=8",
            "program_sampling.scorer=random",
            "program_sampling.evolutionary.population_size=8",
            "program_sampling.evolutionary.generations=0",
            "measure.repeats=1",
            "measure.groups=1",
            "workers=1",
            "samplers=1",
            "task_sampling.sampler=uniform",
            "task_sampling.operators={dense: 1.0}",
            "task_sampling.max_flops=2e6",
        ]
        started.append(commands.start(folder.parent, "generate", *words))
        return started[-1]

    with forked_commands("foretune.dataset.generate") as commands:
        yield start
        for process in started:
            if process.wait(0) is None:
                os.kill(process.pid, signal.SIGKILL)


def wait_for_records(process, folder, shards=2):
    for _ in range(4500):
        if len(list(folder.glob("records-*.parquet"))) >= shards:
            return
        assert process.wait(0.1) is None, process.output + process.errors
    pytest.fail("no records within 450 s")


def output_after_interrupt(process):
    """Interrupt repeatedly, as TVM's solver swallows interrupts while it works."""
    for _ in range(3):
        os.kill(process.pid, signal.SIGINT)
        if process.wait(40) is not None:
            return process.output + process.errors
    raise AssertionError("three interrupts changed nothing")


@pytest.mark.slow
def test_a_killed_run_loses_only_the_batch_in_flight_and_leaves_no_workers(launch, tmp_path):
    folder = tmp_path / "set"
    process = launch(folder)
    wait_for_records(process, folder)
    workers = psutil.Process(process.pid).children()
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(30) == -signal.SIGKILL
    store = RecordStore(folder)
    kept = store.records()
    assert len(kept) >= 8
    assert store.bad_shards == []
    assert workers
    assert all(ends(worker) for worker in workers)

    process = launch(folder)
    wait_for_records(process, folder, shards=len(list(folder.glob("records-*.parquet"))) + 1)
    output = output_after_interrupt(process)
    assert process.status == 130, output
    assert "interrupted: stopping after" in output and "run the same command again" in output
    records = RecordStore(folder).records()
    assert {record.key for record in kept} < {record.key for record in records}


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"target": "bogus"}, UnknownTargetError, "target='bogus'"),
        ({"program_sampling": ProgramSamplingConfig(scorer="oracle")}, SamplingError, "scorer='oracle'"),
    ],
)
def test_settings_that_cannot_be_are_named(tmp_path, changes, error, message):
    with pytest.raises(error, match=message):
        quiet_run(config(tmp_path / "set", **changes))
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(
    "field, value",
    [
        ("tasks", 0),
        ("budget_s", 0.0),
        ("check_outputs", 1.5),
        ("workers", 0),
        ("workers", -1),
        ("samplers", -1),
        ("sampling_timeout_s", 0.0),
        ("seed", -1),
    ],
)
def test_settings_out_of_range_are_named(tmp_path, field, value):
    with pytest.raises(GenerateConfigError, match=f"{field}={value}"):
        config(tmp_path, **{field: value})


def test_the_configuration_file_holds_the_defaults():
    with initialize_config_module("foretune.conf", version_base="1.3"):
        composed = from_hydra(compose("generate"), GenerateConfig)
    assert replace(composed, task_sampling={}) == GenerateConfig(dataset=Path("outputs/dataset"))


def test_an_unknown_option_is_an_error_of_the_command(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "foretune", "generate", "recods_per_task=3"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert run.returncode != 0
    assert "recods_per_task" in run.stderr


def test_random_scoring_needs_no_xgboost(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    assert make_scorer("random", warm_up=1) is not None
    with pytest.raises(SamplingError, match="pip install"):
        make_scorer("xgboost", warm_up=1)


def test_a_restart_knows_every_candidate_that_was_measured(fake_run):
    _, store, _ = fake_run(FakeExecutor(), tasks=1)
    before = {record.key for record in store.records()}
    executor = FakeExecutor()
    summary, store, _ = fake_run(executor, tasks=1, records_per_task=18)
    assert summary.measured == len(executor.asked) == 12
    assert len(store.records()) == 18 == summary.total_records
    assert before < {record.key for record in store.records()}
    assert [record.round for record in store.records()].count(0) == 6


def test_a_round_is_no_larger_than_what_a_task_wants(fake_run):
    summary, _, _ = fake_run(FakeExecutor(), tasks=2, records_per_task=4, per_round=6)
    assert summary.measured == 8


def failing(share):
    """Executor of which one program in `share` fails."""
    numbers = count_from(1)

    def answer(job):
        failed = next(numbers) % share == 0
        return MeasureOutcome(failure=FailureKind.RUN_ERROR) if failed else MeasureOutcome((1e-3,))

    return FakeExecutor(answer)


def test_only_valid_programs_may_count_and_a_restart_counts_them_alike(fake_run):
    summary, *_ = fake_run(failing(3), tasks=1, records_per_task=6, per_round=3, only_valid=True)
    assert (summary.measured, summary.valid) == (9, 6)  # one of each round fails
    summary, *_ = fake_run(failing(3), tasks=1, records_per_task=6, per_round=3, only_valid=True)
    assert (summary.measured, summary.tasks_done) == (0, 1)
    summary, *_ = fake_run(failing(3), tasks=1, records_per_task=10, per_round=3, only_valid=True)
    assert (summary.measured, summary.total_valid) == (6, 10)
    # Every further one fails: it ends at twice as many records as wanted.
    summary, *_ = fake_run(failing(1), tasks=1, records_per_task=20, per_round=5, only_valid=True)
    assert summary.total_records == 40


def test_a_run_ends_at_its_limit_after_the_rounds_in_progress(fake_run):
    summary, store, printed = fake_run(FakeExecutor(), tasks=3, per_round=1, max_records=5)
    measured = summary.measured
    assert 5 <= measured < 10  # of 18
    assert len(store.records()) == measured
    assert "max_records is reached: run the same command again to continue" in printed
    summary, store, printed = fake_run(FakeExecutor(), tasks=3, per_round=1, max_records=100)
    assert (summary.measured, len(store.records())) == (18 - measured, 18)
    assert "max_records" not in printed
    with pytest.raises(GenerateConfigError, match="max_records=0"):
        fake_run(FakeExecutor(), max_records=0)


def test_failures_are_kept_and_told(fake_run):
    kinds = iter([*FailureKind, *[None] * 100])

    def answer(job):
        kind = next(kinds)
        return MeasureOutcome(failure=kind, message="why") if kind else MeasureOutcome((1e-3,))

    summary, store, printed = fake_run(FakeExecutor(answer), tasks=1)
    assert {record.failure for record in store.records()} == set(FailureKind)
    assert summary.failures == dict.fromkeys(FailureKind, 1)
    assert (summary.measured, summary.valid) == (6, 0)
    assert "1 wrong_output" in printed
    assert "wrong outputs" in printed


def test_disturbed_records_are_marked_and_told(fake_run, monkeypatch):
    monkeypatch.setattr(noise_probe, "_MAX_AGE_S", 0.0)  # batches of a fake executor take no time
    probes = iter([1e-3] * 5 + [2e-3] * 1000)
    executor = FakeExecutor(probe=lambda job: MeasureOutcome((next(probes),)))
    noise = NoiseConfig(retries=1)
    summary, store, printed = fake_run(executor, tasks=1, records_per_task=24, noise=noise)
    marked = [record for record in store.records() if record.disturbed]
    assert summary.disturbed == len(marked) == len(store.records()) >= 24
    assert all(record.probe_ratio == 2.0 for record in marked)
    assert f"{len(marked)} records marked" in printed
    assert summary.repeated == len(marked)


def test_the_first_candidate_of_each_task_and_a_share_of_the_others_is_compared(fake_run):
    executor = FakeExecutor()
    fake_run(executor, tasks=2, records_per_task=12, check_outputs=0.1)
    for name in {job.task for job in executor.asked}:
        jobs = [job for job in executor.asked if job.task == name]
        assert [number for number, job in enumerate(jobs) if job.reference is not None] == [0, 10]
        reference = tvm.ir.load_json(jobs[0].reference)
        assert reference["main"].attrs["global_symbol"] == "main"
    executor = FakeExecutor()
    fake_run(executor, tasks=3, check_outputs=0.0)
    assert executor.asked
    assert all(job.reference is None for job in executor.asked)


def test_programs_above_the_limit_of_their_code_are_told(fake_run):
    limited = replace(RANDOM, max_code=40)
    summary, _, printed = fake_run(FakeExecutor(), tasks=1, program_sampling=limited)
    assert summary.measured and summary.rejected[CODE_SIZE] > 0
    assert f"{summary.rejected[CODE_SIZE]} {CODE_SIZE}" in printed


def test_the_best_latency_so_far_goes_with_later_rounds(fake_run):
    seconds = iter(np.linspace(3e-3, 1e-3, 100).tolist())
    executor = FakeExecutor(lambda job: MeasureOutcome((next(seconds),)))
    fake_run(executor, tasks=1, records_per_task=12)
    bests = [job.best_latency_s for job in executor.asked]
    assert bests[:6] == [math.inf] * 6
    assert bests[6:] == [pytest.approx(np.linspace(3e-3, 1e-3, 100)[5])] * 6


def test_a_run_ends_when_its_budget_is_spent_and_goes_on_later(fake_run):
    executor = FakeExecutor()
    summary, _, printed = fake_run(executor, tasks=2, budget_s=6e-8)
    assert summary.out_of_time
    assert summary.tasks_done == summary.measured == 0
    assert "the time is up" in printed
    summary, _, printed = fake_run(executor, tasks=2)
    assert (summary.tasks_done, summary.measured) == (2, 12)
    assert "next: foretune train" in printed


def test_the_summary_tells_the_rate_of_each_stage(fake_run):
    executor = FakeExecutor(lambda job: MeasureOutcome((1e-3,), build_s=1e-9, run_s=1e-9))
    summary, _, printed = fake_run(executor, tasks=1)
    assert set(summary.stage_s) == {"sampling", "building", "timing", "probing", "storing"}
    assert all(seconds > 0 for seconds in summary.stage_s.values())
    assert re.search(r"sampling .*\d+\.\d .*%", printed)
    assert summary.records_per_minute == pytest.approx(60 * 6 / summary.seconds)


def test_devices_work_on_tasks_side_by_side(fake_run):
    executor = FakeExecutor(devices=3)
    summary, store, _ = fake_run(executor, tasks=6, task_sampling={**TASKS, "max_flops": 4e6})
    assert summary.tasks_done == 6
    assert len(store.records()) == 36
    assert {job.device for job in executor.asked} == {0, 1, 2}
    devices_of = {name: {j.device for j in executor.asked if j.task == name} for name in store_tasks(store)}
    assert all(len(devices) == 1 for devices in devices_of.values())


def store_tasks(store):
    return {record.workload_hash for record in store.records()}


@pytest.mark.parametrize("devices", [1, 2])
def test_an_interrupt_keeps_what_was_measured(fake_run, devices):
    calls = []

    def answer(job):
        calls.append(job)
        if len(calls) > 7:
            raise KeyboardInterrupt
        return MeasureOutcome((1e-3,))

    summary, store, printed = fake_run(FakeExecutor(answer, devices=devices), tasks=2, records_per_task=60)
    assert summary.interrupted
    assert summary.measured == len(store.records()) == 6
    assert "run the same command again" in printed


def test_a_full_disk_ends_the_run_with_an_error_and_keeps_what_was_written(fake_run, monkeypatch, tmp_path):
    written = []
    write = RecordStore.append_records

    def append(store, records):
        if written:
            raise StoreError(f"{store.folder}: could not be written (No space left on device)")
        written.extend(records)
        write(store, records)

    monkeypatch.setattr(RecordStore, "append_records", append)
    with pytest.raises(StoreError, match="No space left"):
        fake_run(FakeExecutor(), tasks=2)
    assert len(RecordStore(tmp_path / "set").records()) == len(written) == 6


def test_a_peak_below_the_rate_of_a_program_is_measured_again(fake_run):
    """Programs of a nanosecond are faster than any peak but the last."""
    peaks = iter([1.0, 1e12])

    class Busy(FakeExecutor):
        def hardware(self):
            return replace(HARDWARE, peak_gflops=next(peaks))

    _, store, printed = fake_run(Busy(lambda job: MeasureOutcome((1e-9,))), tasks=1)
    assert store.hardware()[HARDWARE.hardware_id].peak_gflops == 1e12 and "the peak of" not in printed
    peaks = iter([1.0, 2.0])
    for path in store.folder.glob("hardware-*.json"):
        path.unlink()
    _, store, printed = fake_run(Busy(lambda job: MeasureOutcome((1e-9,))), tasks=2)
    found = store.hardware()[HARDWARE.hardware_id]
    assert found.peak_gflops > 2.0 and found.details[FROM_PROGRAM]
    assert "is the rate of its fastest program" in " ".join(printed.split())


def test_a_second_run_to_the_same_dataset_is_refused(fake_run, tmp_path):
    with RecordStore(tmp_path / "set").writing(), pytest.raises(StoreLockedError, match="another run"):
        fake_run(FakeExecutor())


def test_simulated_records_say_so(fake_run):
    executor = FakeExecutor(lambda job: MeasureOutcome((1e-3,), simulated=True))
    _, store, printed = fake_run(executor, tasks=1)
    assert all(record.simulated for record in store.records())
    assert "6 records are simulated" in printed
    assert "foretune train" not in printed


def test_a_failing_self_check_ends_the_run_before_anything_is_measured(fake_run, tmp_path):
    wrong = MeasureOutcome(failure=FailureKind.WRONG_OUTPUT, message="off by 3")
    executor = FakeExecutor(lambda job: wrong)
    with pytest.raises(SelfCheckError, match=r"wrong_output: off by 3.*self_check=false"):
        fake_run(executor, self_check=True)
    assert len(executor.asked) <= 4
    assert all(job.reference is not None for job in executor.asked)
    assert RecordStore(tmp_path / "set").records() == []


def test_the_self_check_accepts_a_device_with_room_for_some_programs_only():
    outcomes = iter([MeasureOutcome(failure=FailureKind.RUN_ERROR, message="no room")] * 3)
    executor = FakeExecutor(lambda job: next(outcomes, MeasureOutcome((1e-3,))))
    check_measurement(executor, parse_target("llvm"))
    none_runs = FakeExecutor(lambda job: MeasureOutcome(failure=FailureKind.RUN_ERROR, message="no room"))
    with pytest.raises(SelfCheckError, match="no room"):
        check_measurement(none_runs, parse_target("llvm"))
    unchecked = FakeExecutor(lambda job: MeasureOutcome((1e-3,), unchecked=True))
    with pytest.raises(SelfCheckError, match=r"unscheduled program of .* failed"):
        check_measurement(unchecked, parse_target("llvm"))


def test_a_self_check_without_a_program_says_so(monkeypatch):
    monkeypatch.setattr(RandomSampler, "propose", lambda self: [])
    with pytest.raises(SelfCheckError, match=r"no valid program.*self_check=false"):
        check_measurement(FakeExecutor(), parse_target("llvm"))


def test_a_database_is_measured_on_its_own_tasks(fake_run, tmp_path):
    target = parse_target("llvm")
    task = to_task(Dense(rows=8, in_features=32, out_features=32))
    proposed = RandomSampler(SamplerSetting(task, target, per_round=6, seed=0)).propose()
    (tmp_path / "database").mkdir()
    database = ms.database.JSONDatabase(work_dir=str(tmp_path / "database"))
    workload = database.commit_workload(task.mod)
    for seconds, (_, candidate) in enumerate(reversed(proposed), 1):
        database.commit_tuning_record(
            ms.database.TuningRecord(
                candidate.sch.trace, workload, [float(seconds)], target, candidate.args_info
            )
        )
    sampling = ProgramSamplingConfig(sampler="database", database=tmp_path / "database")
    summary, store, _ = fake_run(FakeExecutor(), program_sampling=sampling, per_round=4)
    assert [row.workload_hash for row in store.tasks()] == [task.workload_hash]
    records = store.records()
    # The fastest record of the database comes first.
    assert [record.trace for record in records] == [trace for trace, _ in reversed(proposed)]
    assert {record.sampler for record in records} == {"database"}
    assert {record.hardware_id for record in records} == {HARDWARE.hardware_id}
    assert summary.tasks_done == 1


def test_a_cuda_target_is_left_to_the_executor(tmp_path):
    """Records of a dry run, which compiles programs as far as possible and simulates latencies."""
    run_config = config(
        tmp_path / "set",
        tasks=1,
        records_per_task=2,
        per_round=2,
        target="nvidia/nvidia-a100",
        program_sampling=RANDOM,
        executor=ExecutorConfig(kind="dry_run"),
        check_outputs=0.0,
        self_check=False,
    )
    quiet_run(run_config)
    records = RecordStore(tmp_path / "set").records()
    assert len(records) >= 2
    assert all(record.simulated for record in records if record.failure is None)


def test_a_datasheet_is_written_at_the_end(fake_run):
    _, store, printed = fake_run(FakeExecutor(), tasks=1, datasheet=True)
    assert "6" in (store.folder / "datasheet.md").read_text()
    assert (store.folder / "datasheet.html").exists()
    assert "datasheet.md" in printed


def test_tasks_of_the_run_are_those_of_the_sampler(dataset):
    tasks = sample_tasks(n=2, seed=0, **TASKS)
    assert [row.workload_hash for row in RecordStore(dataset).tasks()] == [t.workload_hash for t in tasks]


def test_a_run_with_sampler_processes_keeps_its_seed_and_tells_the_use_of_the_cores(fake_run):
    executor = FakeExecutor()
    summary, store, printed = fake_run(executor, tasks=2, samplers=2, datasheet=True)
    assert (summary.tasks_done, summary.measured) == (2, 12)
    tasks = sample_tasks(n=2, seed=0, **TASKS)
    for task in tasks:
        drawn = RandomSampler(
            SamplerSetting(task, parse_target("llvm"), per_round=6, seed=0, threads=1)
        ).propose()
        found = [record.trace for record in store.records({task.workload_hash})]
        assert found == [trace for trace, _ in drawn]
    assert summary.cpu_s["sampling"] > 0 and 0 <= summary.core_shares["idle"] < 1
    assert re.search(r"cores \d+% busy .*CPU seconds per record", printed)
    (run,) = read_runs(store.folder)
    assert (run.measured, run.valid) == (12, 12)
    assert "CPU s per valid record" in (store.folder / "datasheet.md").read_text()


def test_a_log_file_shows_steps_and_progress_and_an_end(fake_run, monkeypatch):
    monkeypatch.setattr(job_progress, "LINE_EVERY_S", 0.4)
    monkeypatch.setattr(progress, "_UPDATE_EVERY_S", 0.1)
    answered = []

    def answer(job):
        if not answered:
            time.sleep(2.0)
        answered.append(job)
        return MeasureOutcome((1e-3,))

    _, _, printed = fake_run(FakeExecutor(answer), tasks=1, records_per_task=12, budget_s=3600.0)
    lines = printed.splitlines()
    assert lines[0] == "opening the devices of executor=local"
    assert "sampling tasks" in lines
    told = r"\d\.\d s: 0/12 records, about .* left, .*0/min, device .* busy, cores "
    assert any(re.match(told, line) for line in lines)


def test_a_full_disk_of_the_compilers_ends_the_run_and_keeps_the_measured_programs(fake_run, tmp_path):
    answered = []

    def answer(job):
        answered.append(job)
        if len(answered) > 8:
            full = "OSError: [Errno 28] No space left on device"
            return MeasureOutcome(failure=FailureKind.BUILD_ERROR, message=full)
        return MeasureOutcome((1e-3,))

    with pytest.raises(MachineError, match=r"no space left on the disk .* set TMPDIR"):
        fake_run(FakeExecutor(answer), tasks=1, records_per_task=18)
    records = RecordStore(tmp_path / "set").records()
    assert len(records) == 8 and not any(record.failure for record in records)


def test_a_device_that_disappears_ends_the_run_and_keeps_the_measured_programs(fake_run, tmp_path):
    class Vanishing(FakeExecutor):
        def measure(self, jobs):
            outcomes = super().measure(jobs)
            if len(self.asked) > 6:
                raise DevicesLostError("no cuda device; `nvidia-smi`", [*outcomes[:2], *[None] * 4])
            return outcomes

    with pytest.raises(DevicesLostError, match="nvidia-smi"):
        fake_run(Vanishing(), tasks=1, records_per_task=18)
    assert len(RecordStore(tmp_path / "set").records()) == 8
    # Both rounds lack no program afterwards.
    _, store, _ = fake_run(FakeExecutor(), tasks=1, records_per_task=18)
    assert len({record.key for record in store.records()}) == len(store.records()) >= 18


def test_tasks_without_a_program_or_a_sampler_are_told_and_cost_no_other(fake_run, monkeypatch):
    names = [task.name for task in sample_tasks(n=3, seed=0, **TASKS)]

    class Failing(InlineSamplers):
        def open(self, request):
            sampling = super().open(request)
            if request.row["name"] == names[0]:
                sampling.next_round = lambda outcomes=(): SampledRound((), {"VerifyGPUCode": 7})
            elif request.row["name"] == names[1]:
                sampling.next_round = self._lost
            return sampling

        def _lost(self, outcomes=()):
            raise SamplingFailedError("sampler process: killed by signal 9")

    def failing(processes, run_config, target, clock, *rest):
        return Failing(run_config.program_sampling, target, clock)

    monkeypatch.setattr(generate, "make_samplers", failing)
    summary, _, printed = fake_run(FakeExecutor(), tasks=3)
    assert summary.without_program == names[:1]
    assert summary.given_up == {names[1]: "sampler process: killed by signal 9"}
    assert summary.measured == 6 and summary.rejected["VerifyGPUCode"] == 7
    assert f"task {names[0]} without a valid program" in printed
    assert f"task {names[1]} given up (sampler process: killed by signal 9): run the same" in printed
