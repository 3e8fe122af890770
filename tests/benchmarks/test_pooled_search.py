"""The searcher over rated pools, by which planners and families are compared."""

import math

import numpy as np
import pytest
from foretune.dataset.measure.executors.replay import ReplayExecutor
from foretune.dataset.records.program_pool import ProgramPool
from foretune.inference import OneShotConfig
from foretune.inference.strategies.pool import PoolConfig
from support.checkpoints import TARGET, TASK
from support.pools import replayable_pool
from support.searchers import FakeDatabase, network_tuner
from tvm.s_tir import meta_schedule as ms

from benchmarks.families.pools import PooledSearcher, load_rated, rate, save_rated


def test_rated_pools_are_searched_without_tvm_alike(tmp_path):
    pool = ProgramPool(replayable_pool(tmp_path / "pool"))
    rated = {TASK.workload_hash: rate(TASK, TARGET, ms.cost_model.RandomModel(), pool)}
    assert {program.trace for program in rated[TASK.workload_hash]} == set(pool.programs(TASK.workload_hash))
    save_rated(tmp_path / "rated.npz", rated)
    again = load_rated(tmp_path / "rated.npz")
    for one, other in zip(rated[TASK.workload_hash], again[TASK.workload_hash], strict=True):
        assert (one.trace, one.score) == (other.trace, pytest.approx(other.score))
        np.testing.assert_array_equal(one.embedding, other.embedding)
    config = OneShotConfig(PoolConfig(), rounds=3, top_k=9, finalists=0)
    executor = ReplayExecutor(pool)
    tuner = network_tuner(config, executor, [PooledSearcher(again, config)], FakeDatabase())
    (result,) = tuner.tune([TASK])
    # Everything is measured, the failure too, and nothing twice.
    assert result.candidates_measured == 9 and result.candidates_failed == 1
    assert min(result.measured_latencies_s) == 1e-3
    assert sum(map(math.isinf, result.measured_latencies_s)) == 1
