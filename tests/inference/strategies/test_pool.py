"""The pool strategy on real TVM, and the replay of a whole search."""

import numpy as np
import pytest
from foretune.compiler.operators import Dense, to_task
from foretune.dataset.measure import ExecutorConfig
from foretune.dataset.measure.executors.replay import ReplayExecutor
from foretune.dataset.records.program_pool import ProgramPool
from foretune.inference import OneShotConfig
from foretune.inference.run.config import TuneConfig, TuneConfigError
from foretune.inference.search.config import OneShotConfigError
from foretune.inference.strategies.pool import PoolConfig, best_rows
from foretune.inference.workers.searchers import start_searchers
from support.checkpoints import HARDWARE, TARGET, TASK
from support.pools import replayable_pool
from support.searchers import FakeDatabase, network_tuner

CONFIG = {"rounds": 2, "top_k": 4, "finalists": 0, "processes": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return replayable_pool(tmp_path_factory.mktemp("pool"))


def tuned(folder, searcher, config, tasks=(TASK,)):
    executor = ReplayExecutor(ProgramPool(folder))
    tuner = network_tuner(config, executor, [searcher], FakeDatabase(), elapsed_s=executor.elapsed_s)
    return tuner, tuner.tune(list(tasks))


def test_best_rows_draws_a_share_from_the_others():
    rng = np.random.default_rng(0)
    assert best_rows(np.array([0.1, 0.9, 0.5]), 2, 0.0, rng) == [1, 2]
    assert best_rows(np.array([0.1, 0.9]), 5, 0.5, rng) == [1, 0]
    first, second = best_rows(np.arange(10.0), 2, 0.5, rng)
    assert first == 9 and second != 9


def test_a_search_replays_the_programs_of_a_pool_alone(folder):
    pool = ProgramPool(folder)
    config = OneShotConfig(PoolConfig(pool=str(folder)), **CONFIG)
    (searcher,) = start_searchers(config, TARGET, None, HARDWARE)
    absent = to_task(Dense(rows=8, in_features=64, out_features=16))
    tuner, (result, nothing) = tuned(folder, searcher, config, [TASK, absent])
    assert result.candidates_measured == 4
    latencies_s = {record.latency_s for record in pool.programs(TASK.workload_hash).values()}
    assert set(result.measured_latencies_s) <= latencies_s
    assert result.candidates_proposed + sum(result.candidates_rejected.values()) == result.candidates_tried
    assert nothing.candidates_measured == 0 and nothing.reason == "no candidate was found"
    # The clock is the pool's: 0.75 s for each program that was built and run.
    assert tuner.curve[-1][0] == 4 * 0.75


def test_a_replay_needs_the_pool_strategy_and_the_strategy_a_pool(folder, tmp_path):
    settings = {"network": "resnet18", "output": tmp_path, "database": tmp_path}
    replay = ExecutorConfig(kind="replay", pool=str(folder))
    with pytest.raises(
        TuneConfigError, match=r"executor=replay search/strategy=draft.*use search/strategy=pool"
    ):
        TuneConfig(**settings, executor=replay)
    TuneConfig(**settings, executor=replay, search=OneShotConfig("pool"))
    with pytest.raises(OneShotConfigError, match=r"search\.strategy\.pool is missing"):
        start_searchers(OneShotConfig("pool", processes=0), TARGET, None, HARDWARE)
