"""Stock MetaSchedule's search as a strategy."""

from __future__ import annotations

import sys

import pytest
from foretune.dataset.measure import MeasureOutcome
from foretune.inference import OneShotConfig
from foretune.inference.search.config import OneShotConfigError, StopConfig
from foretune.inference.strategies.stock import StockConfig, StockStrategy
from foretune.models.architectures.gbdt import GbdtError
from support.fake_executor import FakeExecutor
from support.tuning import tuned


def test_it_learns_from_the_measurements_of_the_task_alone(tmp_path):
    strategy = StockConfig(population_size=16, generations=1)
    executor = FakeExecutor(lambda job: MeasureOutcome((1e-3,)))
    stop = StopConfig(expected_improvement=0)
    result, _ = tuned(
        None, executor, tmp_path, strategy, rounds=2, top_k=6, replay_factor=1, stop=stop, surrogate=False
    )
    assert result.candidates_measured == 6
    assert result.tuned_latency_s == 1e-3


def test_without_xgboost_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(GbdtError, match=r"foretune\[xgboost\]"):
        StockStrategy.make(StockConfig(), type("Setting", (), {"threads": 1})())


def test_shares_are_in_their_range():
    with pytest.raises(OneShotConfigError, match="eps_greedy=2"):
        OneShotConfig({"name": "stock", "eps_greedy": 2.0})
