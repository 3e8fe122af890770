"""Limits of children and of those that they reuse: rounds, programs, starts and templates."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from foretune.compiler.tvm_compat import parse_target
from foretune.inference.reuse.auto import AutoRules
from foretune.inference.reuse.config import AutoConfig
from foretune.inference.reuse.donors import Donor, ParentsBest
from foretune.inference.reuse.rules import ChildBudget
from foretune.inference.search.config import OneShotConfig
from foretune.inference.starts.base import Start, StartSource
from support.reuse_trees import (
    CONFIG,
    NAMES,
    TASKS,
    A,
    B,
    C,
    D,
    StartingSearcher,
    planner_of,
    tree_of,
    tune,
)
from support.searchers import FakeDatabase


def test_a_child_may_have_a_second_round_without_starts():
    searcher = StartingSearcher()
    rounds = {B.workload_hash: 2}
    planner = planner_of(
        tree_of(a="_", b="a", c="a"),
        child_of=lambda task: ChildBudget(starts=2, rounds=rounds.get(task.workload_hash, 1)),
    )
    results = tune(planner, searcher, TASKS[:3])
    assert [searcher.searched.count(letter) for letter in "abc"] == [2, 2, 1]
    assert [len(request.starts) for request in searcher.rounds("b")] == [2, 0]
    assert results[1].parent == A.name


def test_without_starts_a_child_waits_and_takes_nothing_over():
    searcher = StartingSearcher()
    planner = planner_of(tree_of(a="_", b="a"), child_of=lambda task: ChildBudget(programs=2, starts=0))
    results = tune(planner, searcher, TASKS[:2])
    assert searcher.searched == "aab"
    assert searcher.rounds("b")[0].starts == ()
    assert (results[1].candidates_measured, results[1].parent_hash) == (2, A.workload_hash)


def test_a_source_has_a_limit_of_rounds_and_others_have_theirs():
    searcher = StartingSearcher()
    tune(planner_of(tree_of(a="_", b="a", c="_"), source_rounds=1), searcher, TASKS[:3], [0.02, 0.02, 0.02])
    assert [searcher.searched.count(letter) for letter in "abc"] == [1, 1, 2]


def test_a_source_that_was_interrupted_has_the_rounds_that_are_left():
    known = {A.workload_hash: 0.004}
    database = FakeDatabase(known=known, unfinished={A.workload_hash: 1})
    config = replace(CONFIG, rounds=4)
    searcher = StartingSearcher()
    planner = planner_of(
        tree_of(a="_", b="a"), config=config, source_rounds=2, known_programs=database.latencies_s
    )
    tune(planner, searcher, TASKS[:2], database=database, config=config)
    assert searcher.searched == "ab"


class FourTemplates(StartSource):
    """Has four templates for each task."""

    def starts(self, task):
        return [Start(f"template {n} of {task.name}") for n in range(4)]


def test_a_task_that_others_reuse_begins_with_its_templates_and_is_searched_if_it_is_large():
    # The templates of a take 2 ms, and those of c 0.1 ms, which is less than half of the even share.
    searcher = StartingSearcher(lambda trace: 0.0001 if trace.endswith(C.name) else 0.002)
    planner = planner_of(tree_of(a="_", b="a", c="_"), templates_first=True)
    results = tune(planner, searcher, TASKS[:3], start_sources=[FourTemplates()])
    first, second = searcher.rounds("a")
    assert (len(first.starts), first.budget.measured, first.budget.search) == (2, 2, False)
    assert second.budget.search
    (only,) = searcher.rounds("c")
    assert (len(only.starts), only.budget.search) == (2, False)
    assert [result.reason for result in results] == ["", "", ""]


def test_a_task_without_templates_is_searched_from_the_first_round_on():
    searcher = StartingSearcher()
    tune(planner_of(tree_of(a="_"), templates_first=True), searcher, TASKS[:1])
    assert [request.budget.search for request in searcher.rounds("a")] == [True, True]


@pytest.mark.parametrize(
    ("rounds", "auto", "first"),
    [
        (6, AutoConfig(templates_first=True), True),
        (1, AutoConfig(templates_first=True), False),
        (6, AutoConfig(source_rounds=1, templates_first=True), False),
        (6, AutoConfig(), False),
    ],
    ids=str,
)
def test_templates_come_first_if_a_search_may_follow(rounds, auto, first):
    config = OneShotConfig("evolutionary", rounds=rounds, auto=auto)
    rules = AutoRules(config, parse_target({"kind": "llvm", "mcpu": "znver3"}), FakeDatabase())
    assert rules.limits.templates_first is first


class Steady(StartingSearcher):
    """Has programs of 1 ms for a, of 30 ms for c, and of 2 ms for the others."""

    def reply(self):
        latency = {"a": 0.001, "c": 0.030}.get(NAMES[self.requests[-1].key], 0.002)
        self.latencies_s = (tuple(latency + 1e-6 * n for n in range(4)),)
        return super().reply()


def test_a_source_counts_with_what_is_expected_of_its_children():
    # The even share is (1 + 2 + 30) / 3 ms; half of it is more than a and b take, which b does untuned.
    searcher = Steady()
    planner = planner_of(tree_of(a="_", b="a", c="_"), source_rounds=2)
    tune(planner, searcher, TASKS[:3], [0.02, 0.02, 0.04])
    assert [searcher.searched.count(letter) for letter in "abc"] == [1, 1, 2]


def test_a_child_of_a_small_share_measures_less():
    # By its parent's speed, b takes 2 and d takes 8 times as long as a; c is large.
    searcher = Steady()
    budget = ChildBudget(programs=4, starts=1, small_programs=2)
    planner = planner_of(tree_of(a="_", b="a", c="_", d="a"), child_of=lambda task: budget)
    tune(planner, searcher)
    # The even share is (1 + 2 + 30 + 8) / 4 ms, and half of it is more than 2 ms.
    assert [searcher.rounds(letter)[0].budget.measured for letter in "bd"] == [2, 4]


def test_a_task_of_an_earlier_run_at_another_size_may_have_limits_of_its_own():
    earlier = Donor(D, {"d 0": 0.001})
    rules = {
        "child_of": lambda task: ChildBudget(programs=3, starts=2),
        "earlier_child_of": lambda task, parent: (
            ChildBudget(programs=1, starts=1) if (task, parent) == (A, D) else None
        ),
    }
    searcher = StartingSearcher()
    planner = planner_of(tree_of(a="d", b="d", c="a", d="_"), library=[earlier], **rules)
    tune(planner, searcher, TASKS[:3])
    measured = {letter: [request.budget.measured for request in searcher.rounds(letter)] for letter in "abc"}
    assert measured == {"a": [1], "b": [3], "c": [3]}


def test_topk_measures_further_programs_until_one_runs():
    searcher = StartingSearcher(
        lambda trace: 0.002 if trace.endswith("0 1") else math.inf,
        latencies_s=((0.004, 0.008), (0.005, 0.006)),
    )
    planner = planner_of(tree_of(a="_", b="a"), child_of=lambda task: ChildBudget(starts=3, search=False))
    results = tune(planner, searcher, TASKS[:2])
    first, second = searcher.rounds("b")
    # 4, 5 and 6 ms fail, 8 ms runs.
    key = A.workload_hash
    assert first.starts == tuple(f"b as {key} {p}" for p in ("0 0", "1 0", "1 1"))
    assert second.starts == (f"b as {key} 0 1",)
    assert not first.budget.search
    assert (results[1].candidates_measured, results[1].tuned_latency_s) == (4, 0.002)


class Templates(StartSource):
    """Has two templates for b."""

    def starts(self, task):
        return [Start(f"template {n}") for n in range(2 * (task.workload_hash == B.workload_hash))]


@pytest.mark.parametrize(
    ("beside", "starts"), [(0, ()), (1, ("template 0",)), (3, ("template 0", "template 1"))]
)
def test_a_child_without_a_search_measures_templates_beside_its_starts(beside, starts):
    searcher = StartingSearcher()
    budget = ChildBudget(starts=1, search=False, beside=beside)
    planner = planner_of(tree_of(a="_", b="a"), child_of=lambda task: budget)
    results = tune(planner, searcher, TASKS[:2], start_sources=[Templates()])
    (request,) = searcher.rounds("b")
    assert request.starts == (*starts, f"b as {A.workload_hash} 1 0")
    assert request.budget.measured == 1 + beside
    assert not request.budget.search
    assert results[1].candidates_measured == 1 + len(starts)


def test_a_child_that_no_program_fits_measures_its_templates_alone():
    searcher = StartingSearcher()
    budget = ChildBudget(starts=1, search=False, beside=1)
    nothing_fits = ParentsBest(lambda *_: None)
    planner = planner_of(tree_of(a="_", b="a", c="a"), starts=nothing_fits, child_of=lambda task: budget)
    results = tune(planner, searcher, TASKS[:3], start_sources=[Templates()])
    (request,) = searcher.rounds("b")
    assert request.starts == ("template 0", "template 1")
    assert not request.budget.search
    assert results[1].parent == A.name
    # c has no templates either: a search of its own follows.
    assert [request.budget.search for request in searcher.rounds("c")][:2] == [False, True]


def test_topk_without_a_program_that_runs_is_searched_in_full():
    searcher = StartingSearcher(lambda trace: math.inf)
    planner = planner_of(tree_of(a="_", b="a"), child_of=lambda task: ChildBudget(starts=3, search=False))
    results = tune(planner, searcher, TASKS[:2])
    assert [request.budget.search for request in searcher.rounds("b")][:2] == [False, False]
    assert searcher.rounds("b")[-1].budget.search
    assert results[1].tuned_latency_s is not None


@pytest.mark.parametrize(("least_gain", "templates"), [(0.0, 4), (0.01, 2), (0.1, 1)])
def test_a_child_leaves_out_templates_that_save_the_network_too_little(least_gain, templates):
    """The child takes 2/3 of the latency: its further templates save 7.3, 0.7 and 0.6 % of the network's."""
    target = parse_target({"kind": "llvm", "mcpu": "znver3", "num-cores": 2})
    config = OneShotConfig("evolutionary", auto=AutoConfig(least_gain=least_gain))
    rules = AutoRules(config, target, FakeDatabase())
    assert rules.templates(None) is None
    found = rules.templates(2 / 3)
    assert (4 if found is None else found) == templates
    steady = StartingSearcher(latencies_s=((0.004,),))
    planner = planner_of(
        tree_of(a="_", b="a"),
        child_of=lambda task: ChildBudget(starts=0, templates_alone=True),
        templates_of=rules.templates,
    )
    tune(planner, steady, TASKS[:2], start_sources=[FourTemplates()])
    (child,) = steady.rounds("b")
    assert (len(child.starts), child.budget.search) == (templates, False)
