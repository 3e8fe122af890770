"""Replay of a pool: latencies of records in place of a device."""

import math
from dataclasses import replace

import pytest
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.measure import (
    ExecutorConfig,
    ExecutorConfigError,
    MeasureConfig,
    MeasureJob,
    make_executor,
)
from foretune.dataset.records.program_pool import PoolError, ProgramPool
from foretune.dataset.records.schema import FailureKind
from foretune.dataset.records.store import StoreError
from support.checkpoints import HARDWARE, TASK
from support.pools import pooled_record, write_pool

NAME = TASK.workload_hash
OTHER = replace(HARDWARE, name="Other CPU", cores=4)


def executor_of(folder, **settings):
    config = ExecutorConfig(kind="replay", pool=str(folder), **settings)
    return make_executor(config, parse_target("llvm"), MeasureConfig())


@pytest.fixture
def pool(tmp_path):
    records = [pooled_record(NAME, trace, s) for trace, s in (("a", 1e-3), ("b", 4e-3), ("c", math.inf))]
    return write_pool(tmp_path, [TASK], records)


def test_a_replay_answers_with_the_records_and_counts_their_time(pool):
    with executor_of(pool) as executor:
        assert executor.hardware().name == "replay of Some CPU"
        job = MeasureJob("", task=NAME, trace="a")
        a, c = executor.measure([job, replace(job, trace="c")])
        assert a.run_secs == (1e-3,) and a.simulated
        assert c.failure is FailureKind.RUN_ERROR and c.message == "made to fail"
        assert executor.elapsed_s() == 2 * (0.5 + 0.25)
        executor.measure([job])  # built already
        assert executor.elapsed_s() == 2 * (0.5 + 0.25) + 0.25


def test_the_slowest_program_stands_for_a_task_without_a_schedule(pool):
    known, unknown = executor_of(pool).measure([MeasureJob("", task=NAME), MeasureJob("", task="unknown")])
    assert known.latency_s == 4e-3
    assert unknown.failure is FailureKind.RUN_ERROR and "no program of task unknown ran" in unknown.message


def test_a_candidate_from_elsewhere_is_an_error(pool):
    with pytest.raises(PoolError, match=r"no such program of task .*search/strategy=pool"):
        executor_of(pool).measure([MeasureJob("", task=NAME, trace="elsewhere")])


def test_a_pool_of_several_devices_asks_which(tmp_path):
    records = [pooled_record(NAME, "a", 1e-3), pooled_record(NAME, "a", 2e-3, OTHER)]
    folder = write_pool(tmp_path, [TASK], records, (HARDWARE, OTHER))
    with pytest.raises(PoolError, match=r"name one of the devices.*Other CPU"):
        ProgramPool(folder)
    for name in (OTHER.name, OTHER.hardware_id):
        assert ProgramPool(folder, name).programs(NAME)["a"].latency_s == 2e-3
    with pytest.raises(PoolError, match="hardware='third'"):
        ProgramPool(folder, "third")


def test_simulated_records_are_no_pool(tmp_path):
    made_up = replace(pooled_record(NAME, "a", 1e-3), simulated=True)
    with pytest.raises(PoolError, match="no device"):
        ProgramPool(write_pool(tmp_path, [TASK], [made_up]))


def test_a_pool_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ExecutorConfigError, match=r"executor\.pool is missing"):
        ExecutorConfig(kind="replay")
    with pytest.raises(StoreError, match="nowhere"):
        executor_of(tmp_path / "nowhere")
