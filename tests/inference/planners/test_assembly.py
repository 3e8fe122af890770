"""Planners by `search.reuse`, with real searches and made-up latencies."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from foretune.compiler.operators import Dense, Softmax, to_task
from foretune.compiler.task import ALTERNATIVE
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.measure import MeasureOutcome
from foretune.inference import OneShotConfig
from foretune.inference.database.tuning_database import TuningDatabase
from foretune.inference.eto.published import PublishedTrees
from foretune.inference.planners.assembly import reuse_of_run
from foretune.inference.planners.shares import LatencySharePlanner
from foretune.inference.reuse.config import AutoConfig, EtoConfig
from foretune.inference.search.config import StopConfig
from foretune.inference.search.limits import Limits
from foretune.inference.search.loop import SearchLoop
from foretune.inference.search.opening import anything_due
from foretune.inference.search.task_search import TaskSearch
from foretune.inference.spaces.stock import StockSpace
from foretune.inference.strategies.registry import strategy_config
from foretune.inference.surrogate.shared import own_surrogate
from foretune.inference.workers.searchers import start_searchers
from support.drafts import CPU
from support.fake_executor import FakeExecutor
from support.searchers import network_tuner
from support.tuning import SHORT_SEARCH

TARGET = parse_target({"kind": "llvm", "num-cores": 2})
CONFIG = replace(
    SHORT_SEARCH,
    reuse="auto",
    auto=AutoConfig(source_rounds=2, programs=2, small_programs=2, starts=1),
)
# The first has most operations; the others are a half and a quarter of it.
TASKS = [to_task(Dense(rows=16, in_features=32, out_features=n)) for n in (256, 128, 64)]


class Run:
    """A run into a folder, whose programs get faster one by one."""

    def __init__(self, folder: Path, config=CONFIG, tasks=TASKS, batches=10**6):
        self.database = TuningDatabase(folder, TARGET, CPU)
        self.reuse = reuse_of_run(config, TARGET, self.database)
        self.config, self.tasks = config, tasks
        self._left = batches
        self._seconds = (1e-3 / n for n in itertools.count(1))

    def tune(self):
        def latency(job):
            return MeasureOutcome((next(self._seconds),))

        def in_time():
            return self._left > 0

        class Counted(FakeExecutor):
            def measure(executor, jobs):
                self._left -= 1
                return super().measure(jobs)

        tuner = network_tuner(
            self.config,
            Counted(latency),
            start_searchers(self.config, TARGET, None, CPU),
            self.database,
            planner=self.reuse.planner(),
            limits=Limits(in_time=in_time),
        )
        return tuner.tune(self.tasks, [1.0] * len(self.tasks))

    @property
    def due(self):
        for task in self.tasks:
            self.database.notes.note_untuned(task, 1.0)
        return anything_due(self.tasks, self.config, self.database, self.reuse.planner())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("whole"))
    return run, run.tune()


def test_without_reuse_the_planner_is_the_default_one(tmp_path):
    run = Run(tmp_path, replace(CONFIG, reuse="off"))
    assert type(run.reuse.planner()) is LatencySharePlanner


def test_one_task_is_searched_and_the_others_begin_with_its_programs(whole):
    run, results = whole
    assert [result.candidates_measured for result in results] == [4, 2, 2]
    assert [result.parent for result in results] == ["", TASKS[0].name, TASKS[1].name]
    assert not run.due


def test_a_search_without_reuse_goes_on_where_a_run_with_reuse_ended(whole):
    run, _ = whole
    off = reuse_of_run(replace(CONFIG, reuse="off"), TARGET, run.database)
    assert anything_due(TASKS, CONFIG, run.database, off.planner())


def test_tasks_of_an_earlier_run_are_parents(whole):
    run, _ = whole
    task = to_task(Dense(rows=16, in_features=32, out_features=32))
    later = Run(run.database.folder.parent, tasks=[task])
    (result,) = later.tune()
    assert (result.candidates_measured, result.parent_hash) == (1, TASKS[2].workload_hash)
    child_of = later.reuse.rules.earlier_child
    assert child_of(task, TASKS[2]).search is False  # half of its columns
    assert child_of(to_task(Dense(rows=8, in_features=32, out_features=128)), TASKS[2]) is None
    retune = reuse_of_run(CONFIG, TARGET, later.database, retune=True)
    assert retune.select([task]).library == []


@pytest.mark.parametrize(
    ("templates", "target", "asked", "starts"),
    [
        (4, {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}, None, 0),
        (0, {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}, None, 4),
        (4, "nvidia/nvidia-a100", None, 4),
        (4, {"kind": "llvm", "mcpu": "x86-64", "num-cores": 2}, None, 4),  # without multiply-adds
        (4, TARGET, 2, 2),
        (0, TARGET, 0, 0),
    ],
)
def test_templates_take_the_place_of_adapted_programs(whole, templates, target, asked, starts):
    run, _ = whole
    config = replace(CONFIG, templates=templates, auto=replace(CONFIG.auto, starts=asked))
    rules = reuse_of_run(config, parse_target(target), run.database).rules
    child = rules.child(TASKS[1])
    assert child.starts == child.heavy.starts == starts
    resized = rules.earlier_child(TASKS[1], TASKS[2])
    assert (resized is None) == (asked == 0)


def test_an_alternative_knows_its_layer_at_another_size(whole):
    """The tree is chosen before alternatives are known to it, so that they have no parent there."""
    run, _ = whole
    task = to_task(Dense(rows=16, in_features=32, out_features=32))
    alternative = replace(to_task(Dense(rows=16, in_features=32, out_features=16)), source=ALTERNATIVE)
    planner = Run(run.database.folder.parent, tasks=[task]).reuse.planner()
    assert list(planner.further_tasks([task])) == []
    searches = [TaskSearch(one, SearchLoop(StopConfig(), 0, own_surrogate())) for one in (task, alternative)]
    planner.begin(searches)
    # The columns of the three tasks are 64, 128 and 256.
    fastest_s = [run.database.best_latency_s(other) for other in reversed(TASKS)]
    assert [planner.resized_s(search) for search in searches] == [
        dict(zip((1.0, 2.0, 3.0), fastest_s, strict=True)),
        dict(zip((2.0, 3.0, 4.0), fastest_s, strict=True)),
    ]


@pytest.mark.parametrize("starts", [1, 0], ids=["adapted programs", "none"])
@pytest.mark.parametrize("batches", [1, 2, 3])
def test_an_interrupted_run_goes_on_in_the_middle_of_the_tree(tmp_path, batches, starts):
    config = replace(CONFIG, auto=replace(CONFIG.auto, starts=starts))
    first = Run(tmp_path, config, batches=batches)
    first.tune()
    assert first.due
    before = {
        task.workload_hash: set(first.database.latencies_s(task))
        for task in TASKS
        if first.database.best_latency_s(task)
    }
    again = Run(tmp_path, config)
    results = again.tune()
    assert [result.parent for result in results] == ["", TASKS[0].name, TASKS[1].name]
    for task, result, programs in zip(TASKS, results, (4, 2, 2), strict=True):
        known = before.get(task.workload_hash, set())
        assert len(known) + result.candidates_measured >= programs
        assert len(again.database.latencies_s(task)) == len(known) + result.candidates_measured
    assert not again.due


def test_the_database_tells_of_tasks_outside_a_run(whole):
    run, _ = whole
    found = run.database.other_tasks([TASKS[0].workload_hash])
    assert sorted(task.workload_hash for task in found) == sorted(t.workload_hash for t in TASKS[1:])
    assert {task.weight for task in found} == {0}
    assert {task.operator for task in found} == {"dense"}
    fastest = run.database.latencies_s(TASKS[0], most=2)
    assert sorted(fastest.values()) == sorted(run.database.latencies_s(TASKS[0]).values())[:2]


STOCK = {"name": "stock", "population_size": 16, "generations": 1}


def published(reuse):
    """Settings of a published search, small enough for a test."""
    eto = EtoConfig(trials=16, samples=2, bridges="none")
    return OneShotConfig(STOCK, processes=0, reuse=reuse, eto=eto).for_reuse()


def test_eto_searches_one_task_by_stock_metaschedule_and_the_others_by_algorithm_1(tmp_path):
    config = published("paper")
    assert (config.strategy.name, config.strategy.rank, config.strategy.backend) == (
        "reuse",
        "paper",
        strategy_config(STOCK),
    )
    run = Run(tmp_path, config)
    results = run.tune()
    roots = [result for result in results if not result.parent]
    assert len(roots) < len(results)
    # Never more than the backend would measure; all of it where nothing is reused.
    assert {result.candidates_measured for result in roots} == {16}
    assert all(1 <= result.candidates_measured <= 16 for result in results)
    assert not run.due


def test_eto_goes_on_in_the_middle_of_a_child(tmp_path):
    config = replace(published("paper"), rounds=2)
    whole = Run(tmp_path / "whole", config).tune()
    roots = sum(not result.parent for result in whole)
    # A root has two batches; the first child has had one when the run is stopped.
    first = Run(tmp_path / "part", config, batches=2 * roots + 1)
    first.tune()
    assert first.due
    again = Run(tmp_path / "part", config)
    results = again.tune()
    assert not again.due
    for task, result in zip(TASKS, results, strict=True):
        assert result.tuned_latency_s is not None
        assert len(again.database.latencies_s(task)) <= 16


def test_topk_takes_programs_over_as_they_are(tmp_path):
    results = Run(tmp_path, published("top_k")).tune()
    children = [result for result in results if result.parent]
    assert children
    assert all(result.candidates_measured <= 3 for result in children)


def test_selective_tuning_searches_the_representatives_of_its_clusters(tmp_path):
    results = Run(tmp_path, published("selective")).tune()
    # Three widths of 256, 128 and 64 columns have most steps in common.
    assert sum(not result.parent for result in results) == 1
    assert {result.candidates_measured for result in results if not result.parent} == {16}


def test_settings_without_a_published_search_stay(tmp_path):
    assert CONFIG.for_reuse() is CONFIG
    assert OneShotConfig(reuse="paper").for_reuse().strategy.backend == strategy_config("stock")


@pytest.mark.parametrize("reuse", ["paper", "top_k", "selective"])
def test_a_published_search_has_nothing_of_foretune(reuse):
    config = OneShotConfig(reuse=reuse).for_reuse()
    assert (config.templates, config.starts, config.surrogate, config.finalists) == (0, "known", False, 0)


@pytest.mark.parametrize("reuse", ["auto", "paper", "selective"])
def test_without_any_reuse_pair_each_task_is_searched(tmp_path, reuse):
    tasks = [TASKS[2], to_task(Softmax(rows=16, columns=32))]
    config = CONFIG if reuse == "auto" else published(reuse)
    results = Run(tmp_path, config, tasks).tune()
    assert [result.parent for result in results] == ["", ""]
    assert results[0].candidates_measured == config.top_k
    assert all(result.tuned_latency_s for result in results)


def test_with_auto_algorithm_1_may_decide_by_measurements(tmp_path):
    strategy = {"name": "reuse", "rank": "paper", "backend": "evolutionary"}
    config = replace(CONFIG, strategy=strategy, top_k=12, rounds=6, replay_factor=1)
    source, *children = Run(tmp_path, config, TASKS[:2]).tune()
    assert (source.parent, source.candidates_measured) == ("", 4)  # auto.source_rounds
    # More than auto.programs, in rounds of two: one for each step.
    assert all(2 < child.candidates_measured <= 12 for child in children)
    assert [child.parent for child in children] == [TASKS[0].name]


def test_bridges_join_tasks_that_cannot_reuse_each_other():
    # 16 rows of 32 columns, and 32 of 16: neither dominates the other, and 16 of 16 is below both.
    tasks = [to_task(Dense(rows=r, in_features=64, out_features=n)) for r, n in ((16, 32), (32, 16))]
    trees = PublishedTrees(TARGET, StockSpace(None))
    selected = trees.least_cost(tasks, trials=1000, bridges="one_hop")
    (bridge,) = selected.bridges
    assert (bridge.weight, bridge.settings["rows"], bridge.settings["out_features"]) == (0, 16, 16)
    parents = selected.selection.tree({}, {}).parents
    assert sum(parent == "" for parent in parents.values()) == 1
    without = trees.least_cost(tasks, trials=1000, bridges="none")
    assert set(without.selection.tree({}, {}).parents.values()) == {""}
