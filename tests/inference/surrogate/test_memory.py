"""Memory of shared surrogates: kept beside the schedules, and taken up by the next run."""

from __future__ import annotations

import json
import math

import numpy as np
from foretune.dataset.measure.worker.process import WorkerLostError
from foretune.dataset.records.schema import FailureKind
from foretune.inference.planners.turn_planner import make_planner
from foretune.inference.search.config import OneShotConfig, StopConfig
from foretune.inference.search.opening import opened_searches
from foretune.inference.search.persistence import Ledger
from foretune.inference.search.selection import Selector
from foretune.inference.surrogate.memory import MEMORY_FILE, SurrogateMemory
from foretune.inference.surrogate.shared import Surrogates
from support.search_loop import proposal
from support.searchers import TASKS, FakeDatabase, FakeSearcher, tuner_of

SHARED = {"rounds": 2, "top_k": 4, "share_surrogate": True}


def test_a_memory_keeps_what_ran_once(tmp_path):
    path = tmp_path / MEMORY_FILE
    memory = SurrogateMemory(path, "cpu")
    one, failed = proposal(0.5, 1.25, 0.0), proposal(0.4, 2.0, 0.0)
    memory.keep("dense", "task", [(one, 1e-3), (failed, math.inf)])
    memory.keep("dense", "task", [(one, 1e-3)])
    assert len(path.read_text().splitlines()) == 1
    memory.keep("dense", "task", [(one, 9e-4)])  # measured again
    ((again, latency_s),) = SurrogateMemory(path, "cpu").programs("dense")["task"]
    assert latency_s == 9e-4 and again.score == 0.5
    np.testing.assert_array_equal(again.embedding, one.embedding)
    assert SurrogateMemory(path, "other model").programs("dense") == {}
    assert memory.programs("conv2d") == {}


def test_the_next_run_begins_with_what_the_last_one_learned(tmp_path):
    path = tmp_path / MEMORY_FILE
    config = OneShotConfig(**SHARED)
    tuner_of(FakeSearcher(), config=config, memory=SurrogateMemory(path)).tune(TASKS[:1], [1.0])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert {line["family"] for line in lines} == {"dense"}
    ledger = Ledger(FakeDatabase(), config.rounds, memory=SurrogateMemory(path))
    planner = make_planner(config)
    (other,), _ = opened_searches(TASKS[1:2], config, planner, ledger)
    assert other.surrogate_group == "dense"
    assert other.loop.selector._surrogate.is_primed
    (alone,), _ = opened_searches(TASKS[1:2], OneShotConfig(), planner, ledger)
    assert not alone.loop.selector._surrogate.is_primed


def test_a_primed_surrogate_chooses_the_first_batch_and_may_stop_before_the_minimum():
    """Fast at 0 and slow at 10 in the other task, whatever the frozen model says of this one."""
    surrogates = Surrogates()
    surrogates.of("one", "family").learn(
        [proposal(0.5, float(knob), 0.0) for knob in (0, 5, 10)], [1e-3, 2e-3, 4e-3]
    )
    left = [proposal(0.6, 9.5, 0.0), proposal(0.55, 6.0, 0.0), proposal(0.5, 0.5, 0.0)]
    stop = StopConfig(batch=1, minimum=3, patience=1, expected_improvement=0.9)
    primed, unprimed = Selector(stop, surrogates.of("two", "family")), Selector(stop, Surrogates().of("two"))
    for selector in (primed, unprimed):
        selector.offer(left)
    assert [one.embedding[0] for one in unprimed.next_batch(8)] == [9.5, 6.0, 0.5]
    (first,) = primed.next_batch(8)
    assert first.embedding[0] == 0.5


def test_a_searcher_is_told_what_its_family_has_measured_and_again_after_it_died():
    """The second task's searcher hears of the first one's programs, once; a new process hears of all."""
    died = WorkerLostError(FailureKind.WORKER_DIED, "gone")
    searcher = FakeSearcher(replies=[None, None, died])
    tuner_of(searcher, config=OneShotConfig(**SHARED)).tune(TASKS[:2], [1.0, 2.0])
    first, second, third, *later = searcher.requests
    assert first.siblings == ()
    told = {sibling.workload for sibling in second.siblings}
    assert told == {first.key}
    assert {sibling.workload for sibling in third.siblings} == {second.key}
    # The request whose process died is made anew with all that is known of the family.
    assert {sibling.workload for sibling in later[0].siblings} == {second.key}
    assert len(later[0].siblings) == len(third.siblings)
