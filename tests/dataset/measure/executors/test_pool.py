"""Tests of the worker pool: real builds and runs, and every kind of failure."""

import math
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

import pytest
from foretune.compiler.codegen.objects import symbol_of
from foretune.compiler.tvm_compat import module_from_json, parse_target
from foretune.dataset.generation.testbed import check_measurement
from foretune.dataset.measure import MeasureConfig, MeasureJob, WorkerPool
from foretune.dataset.measure.job import MeasureConfigError
from foretune.dataset.measure.machine_errors import DevicesLostError
from foretune.dataset.measure.worker.process import WorkerProcess, WorkerSpec
from foretune.dataset.records.schema import FailureKind, latency_of
from support.killed_workers import kill, kill_at
from support.programs import (
    Aborts,
    Doubled,
    DoubledInPart,
    DoubledInTiles,
    KillsItself,
    Segfaults,
    Sleeps,
    Tripled,
    checked,
    job,
)

TARGET = parse_target("llvm")
CONFIG = MeasureConfig(build_timeout_s=60.0, run_timeout_s=2.0)


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(TARGET, CONFIG, workers=2) as pool:
        yield pool


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="Linux tells what a process has loaded")
def test_measuring_processes_do_without_torch(pool):
    pool.measure([job(Doubled)])
    for pid in pool.worker_pids:
        loaded = Path(f"/proc/{pid}/maps").read_text()
        assert "libtvm" in loaded and "libtorch" not in loaded


def test_other_work_has_the_machine_alone(pool):
    with ThreadPoolExecutor(1) as thread:
        with pool.alone():
            measuring = thread.submit(pool.measure, [job(Doubled)])
            assert not wait([measuring], timeout=1).done
        assert measuring.result()[0].failure is None


def test_the_object_file_of_a_kept_library_defines_the_symbol_of_its_program(pool):
    kept = job(DoubledInTiles, keep_built=True)
    pool.measure([kept])
    symbol = symbol_of(module_from_json(kept.module)["main"], TARGET)
    data = pool.object_file(kept)
    assert data.startswith(b"\x7fELF") and b"\0__tvm_ffi_" + symbol.encode() + b"\0" in data


def test_a_library_that_is_not_kept_has_no_object_file(pool):
    pool.measure([job(Tripled)])
    assert pool.object_file(job(Tripled, keep_built=True)) is None


def test_a_program_is_timed(pool):
    (outcome,) = pool.measure([job(Doubled)])
    assert outcome.failure is None
    assert len(outcome.run_secs) >= CONFIG.repeats
    assert 0 < outcome.latency_s < 0.1
    assert outcome.build_s > 0


def test_each_failure_has_its_kind_and_spares_its_neighbours(pool):
    good = job(Doubled)
    outcomes = pool.measure([good, job(Aborts), good, job(Sleeps), good, MeasureJob("no module"), good])
    kinds = [outcome.failure for outcome in outcomes]
    assert kinds[::2] == [None] * 4
    assert kinds[1] is FailureKind.WORKER_DIED
    assert "signal 6" in outcomes[1].message
    assert kinds[3] is FailureKind.RUN_TIMEOUT
    assert kinds[5] is FailureKind.BUILD_ERROR
    assert outcomes[5].message


def test_wrong_outputs_are_found(pool):
    outcomes = pool.measure([checked(DoubledInTiles), checked(Tripled), checked(DoubledInPart)])
    assert [outcome.failure for outcome in outcomes] == [
        None,
        FailureKind.WRONG_OUTPUT,
        FailureKind.WRONG_OUTPUT,
    ]
    # Elements that a program leaves out must not contain the output of an earlier program.
    assert "1 of 1024 values differ from the unscheduled program, the first at (1023,)" in outcomes[2].message


def test_a_reference_that_fails_is_told_once_and_leaves_its_programs_unchecked(pool, caplog):
    for _ in range(2):
        outcomes = pool.measure([checked(Tripled, reference=Segfaults), checked(Tripled)])
        assert [outcome.failure for outcome in outcomes] == [None, FailureKind.WRONG_OUTPUT]
    (told,) = caplog.messages
    assert "an unscheduled program failed (killed by signal 11" in told and "unchecked" in told


def test_what_is_kept_is_built_once(pool):
    kept = job(Doubled, keep_built=True)
    assert pool.measure([kept])[0].build_s > 0
    outcomes = pool.measure([kept, job(Doubled), kept])
    assert [outcome.build_s > 0 for outcome in outcomes] == [False, True, False]
    assert [outcome.failure for outcome in outcomes] == [None] * 3


def test_killed_workers_are_replaced_and_no_candidate_is_blamed(pool):
    before = pool.worker_pids
    kept = job(Doubled, keep_built=True)
    pool.measure([kept])
    for pid in before:
        kill(pid)
    outcomes = pool.measure([kept, *(job(Doubled) for _ in range(3))])
    assert [outcome.failure for outcome in outcomes] == [None] * 4
    assert not set(before) & set(pool.worker_pids)


def test_the_work_of_a_killed_worker_is_repeated(pool, monkeypatch):
    left = kill_at(monkeypatch, "reference", "build", "run")
    reference = DoubledInTiles  # which no other test runs
    outcomes = pool.measure([checked(Doubled, reference=reference), job(Doubled)])
    assert left == []
    assert [outcome.failure for outcome in outcomes] == [None] * 2
    assert not outcomes[0].unchecked


def test_the_self_check_survives_a_killed_worker(pool, monkeypatch):
    left = kill_at(monkeypatch, "build")
    check_measurement(pool, TARGET)
    assert left == []


def test_a_program_that_has_its_worker_killed_is_a_failure_and_several_are_an_error(pool):
    good, bad = job(Doubled), job(KillsItself)
    outcomes = pool.measure([good, bad, good])
    assert [outcome.failure for outcome in outcomes] == [None, FailureKind.WORKER_DIED, None]
    assert outcomes[1].message == "killed by signal 9, probably out of memory"
    told = (
        "3 times in a row; free some memory, or add workers=1, which needs less: the same command continues"
    )
    with pytest.raises(DevicesLostError, match=f"^measuring process: .*{told}") as lost:
        pool.measure([bad, bad, bad])
    assert lost.value.outcomes == [None] * 3


def test_a_worker_outlives_the_thread_that_replaced_it(pool):
    thread = threading.Thread(target=pool.measure, args=([job(Segfaults)],))
    thread.start()
    thread.join(60)
    pids = pool.worker_pids
    assert pool.measure([job(Doubled) for _ in range(4)])[-1].failure is None
    assert pool.worker_pids == pids


def no_process() -> WorkerProcess:
    return WorkerProcess(WorkerSpec("host", TARGET, CONFIG, module="foretune.no_such_module"))


def test_what_was_measured_outlives_a_worker_that_does_not_start():
    good, crash = job(Doubled), job(Aborts)
    with WorkerPool(TARGET, CONFIG, workers=1) as pool:
        start, pool._start = pool._start, no_process
        with pytest.raises(DevicesLostError, match="no_such_module") as lost:
            pool.measure([good, crash, good])  # the build of the third is lost with the worker of the second
        measured, crashed, missing = lost.value.outcomes
        assert measured.failure is None and measured.latency_s < 0.1
        assert crashed.failure is FailureKind.WORKER_DIED
        assert missing is None
        pool._start = start
        assert [outcome.failure for outcome in pool.measure([good] * 2)] == [None] * 2


def test_a_reply_that_nobody_waits_for_answers_no_later_request():
    with WorkerPool(TARGET, CONFIG, workers=2) as pool:
        pool.measure([job(Doubled)] * 2)
        kill(pool.worker_pids[1])
        start, pool._start = pool._start, no_process
        with suppress(DevicesLostError):  # the first worker may have time for both
            pool.measure([MeasureJob("no module"), job(Doubled)])
        pool._start = start
        assert [outcome.failure for outcome in pool.measure([job(Doubled)] * 2)] == [None] * 2


def test_a_build_that_takes_too_long_is_stopped():
    with WorkerPool(TARGET, MeasureConfig(build_timeout_s=1e-6), workers=1) as pool:
        (outcome,) = pool.measure([job(Doubled)])
    assert outcome.failure is FailureKind.BUILD_TIMEOUT


def test_the_best_of_a_task_cuts_no_other_task_short(pool):
    slow, other = pool.measure([job(Doubled, best_latency_s=1e-12, task="a"), job(Doubled, task="b")])
    assert slow.cut_short
    assert not other.cut_short


def test_a_program_far_behind_the_best_runs_once(pool):
    (outcome,) = pool.measure([job(Doubled, best_latency_s=1e-12)])
    assert outcome.cut_short
    assert len(outcome.run_secs) == 1


def test_workers_die_with_the_pool():
    pool = WorkerPool(TARGET, CONFIG, workers=1)
    (pid,) = pool.worker_pids
    pool.close()
    time.sleep(0.1)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_latency_is_the_shortest_repeat():
    assert latency_of([3.0, 1.0, 2.0]) == 1.0
    assert latency_of([]) == math.inf


@pytest.mark.parametrize("field, value", [("repeats", 0), ("run_timeout_s", -1.0), ("slow_factor", 1.0)])
def test_settings_that_cannot_be_are_named(field, value):
    with pytest.raises(MeasureConfigError, match=rf"measure\.{field}={value}"):
        MeasureConfig(**{field: value})
