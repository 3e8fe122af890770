"""A task searched in full and its child by its program, measured on this CPU."""

from __future__ import annotations

import math

from foretune.compiler.operators import Dense, to_task
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.measure import MeasureConfig, WorkerPool
from foretune.inference.database.tuning_database import TuningDatabase
from foretune.inference.reuse.donors import ParentsBest
from foretune.inference.reuse.planner import ReusePlanner
from foretune.inference.reuse.rules import ChildBudget, ReuseRules, Selected
from foretune.inference.reuse.selection import GivenSelection
from foretune.inference.reuse.tree import ROOT, ReuseTree
from foretune.inference.search.config import OneShotConfig, StopConfig
from foretune.inference.spaces.stock import StockSpace
from foretune.inference.starts.adapted import ProgramAdapter
from foretune.inference.workers.searchers import start_searchers
from support.searchers import network_tuner

PARENT, CHILD = (to_task(Dense(rows=32, in_features=64, out_features=n)) for n in (64, 128))
TREE = ReuseTree({PARENT.workload_hash: ROOT, CHILD.workload_hash: PARENT.workload_hash}, {})


def test_a_child_measures_adapted_programs_and_candidates_of_algorithm_1(tmp_path):
    target = parse_target("llvm")
    config = OneShotConfig(
        {"name": "reuse", "backend": "evolutionary"},
        rounds=1,
        top_k=6,
        finalists=0,
        processes=0,
        stop=StopConfig(expected_improvement=0),
    ).fitted(target)
    adapter = ProgramAdapter(target, StockSpace(config.max_code))
    planner = ReusePlanner(
        config,
        lambda tasks: Selected(GivenSelection(TREE)),
        ParentsBest(adapter),
        ReuseRules(ChildBudget(programs=4, starts=2)),
    )
    with WorkerPool(target, MeasureConfig(repeats=2, groups=1)) as pool:
        hardware = pool.hardware()
        searchers = start_searchers(config, target, None, hardware)
        database = TuningDatabase(tmp_path, target, hardware)
        tuner = network_tuner(config, pool, searchers, database, planner=planner)
        parent, child = tuner.tune([PARENT, CHILD], [math.inf, math.inf])
    assert (parent.parent, child.parent) == ("", PARENT.name)
    assert (parent.candidates_measured, child.candidates_measured) == (6, 4)
    assert tuner.starts_measured[0] == 2
    assert math.isfinite(child.tuned_latency_s)
    assert not adapter.skipped
