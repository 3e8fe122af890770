"""Measurement by worker processes: real builds and runs, and every way a candidate can fail."""

import math
import os
import signal
import time

import pytest
import tvm
from foretune.dataset.measure import MeasureConfig, MeasureJob, WorkerPool
from foretune.dataset.measure.job import MeasureConfigError
from foretune.dataset.records import FailureKind, latency_of
from foretune.dataset.tvm_compat import parse_target
from tvm.script import ir as I
from tvm.script import tirx as T

TARGET = parse_target("llvm")
CONFIG = MeasureConfig(build_timeout_s=60.0, run_timeout_s=2.0)


@I.ir_module
class Doubled:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((1024,), "float32"), b: T.Buffer((1024,), "float32")):
        for i in range(1024):
            with T.sblock("b"):
                v = T.axis.spatial(1024, i)
                b[v] = a[v] * T.float32(2)


@I.ir_module
class Aborts:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                b[v] = a[v] + T.call_extern("float32", "abort")


@I.ir_module
class Sleeps:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("b"):
                v = T.axis.spatial(4, i)
                b[v] = a[v] + T.cast(T.call_extern("int32", "sleep", 30), "float32")


def job(module, best_latency_s=math.inf):
    return MeasureJob(tvm.ir.save_json(module), best_latency_s)


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(TARGET, CONFIG, workers=2) as pool:
        yield pool


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


def test_a_killed_worker_is_replaced_and_its_candidates_measured(pool):
    before = pool.worker_pids
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    outcomes = pool.measure([job(Doubled) for _ in range(4)])
    # The candidate a worker held when it was killed may be blamed for its death; no other may.
    assert sum(outcome.failure is None for outcome in outcomes) >= 2
    assert {o.failure for o in outcomes} <= {None, FailureKind.WORKER_DIED}
    assert not set(before) & set(pool.worker_pids)
    assert all(outcome.failure is None for outcome in pool.measure([job(Doubled) for _ in range(4)]))


def test_a_build_that_takes_too_long_is_stopped():
    with WorkerPool(TARGET, MeasureConfig(build_timeout_s=1e-6), workers=1) as pool:
        (outcome,) = pool.measure([job(Doubled)])
    assert outcome.failure is FailureKind.BUILD_TIMEOUT


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
