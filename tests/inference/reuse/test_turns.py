"""A reuse tree with each planner: the tree says where a task starts from, the planner whose turn it is."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from foretune.inference.database.tuning_notes import TaskName
from foretune.inference.planners.registry import PLANNERS
from foretune.inference.reuse.rules import ChildBudget
from foretune.inference.search.config import StopConfig
from foretune.inference.search.tuner import Limits
from support.reuse_trees import (
    BRIDGE,
    CONFIG,
    NAMES,
    STEP_BY_STEP,
    TASKS,
    A,
    B,
    StartingSearcher,
    Steps,
    planner_of,
    tree_of,
    tune,
)
from support.searchers import FakeDatabase

ALL = StopConfig(expected_improvement=0.0)
BUDGETED = [name for name in PLANNERS if name != "shares"]
CHILD = ChildBudget(programs=2, starts=1)


SECONDS = dict(zip("abcd+", (0.001, 0.010, 0.004, 0.002, 0.005), strict=True))


class Network(StartingSearcher):
    """Proposes two programs a round, always as slow: a takes 1 ms, b 10 ms, c 4 ms and d 2 ms."""

    def __init__(self, start_s=lambda trace: SECONDS[trace[0]], **other):
        super().__init__(start_s)
        self.seconds = {**SECONDS, **other}

    def reply(self):
        latency_s = self.seconds[NAMES[self.requests[-1].key]]
        self.latencies_s = ((latency_s, latency_s),)
        return super().reply()


@pytest.mark.parametrize("name", PLANNERS)
def test_under_a_time_budget_no_task_has_a_second_round_before_all_had_one(name):
    config = replace(CONFIG, planner=name, rounds=4, top_k=8, stop=ALL)
    tree = tree_of(a="_", b="a", c="b", d="_")
    planner = planner_of(tree, config=config, child_of=lambda task: CHILD, breadth_first=True)
    searcher = Network()
    tune(planner, searcher, config=config, limits=Limits(breadth_first=True))
    assert set(searcher.searched[:4]) == set("abcd")
    assert len(searcher.searched) > 4


@pytest.mark.parametrize("name", PLANNERS)
def test_a_child_has_a_round_when_the_time_of_its_parent_is_over(name):
    """b has three rounds before it as a child, and the time is over in its first one: c waits no longer."""
    config = replace(CONFIG, planner=name, rounds=4, top_k=8, stop=ALL)
    rules = {"child_of": lambda task: replace(CHILD, rounds=3)}
    planner = planner_of(tree_of(a="_", b="a", c="b"), config=config, breadth_first=True, **rules)
    searcher = Network()
    limits = Limits(in_time=lambda: len(searcher.searched) < 2, breadth_first=True)
    results = tune(planner, searcher, TASKS[:3], config=config, limits=limits)
    assert searcher.searched == "abc"
    assert all(result.tuned_latency_s for result in results)


def tuned(
    name, tree, searcher, tasks=TASKS, untuned_s=None, *, database=None, told=None, settings=None, **rules
):
    config = replace(CONFIG, **{"planner": name, "rounds": 4, "top_k": 8, "stop": ALL, **(settings or {})})
    planner = planner_of(tree, config=config, **{"child_of": lambda task: CHILD, **rules})
    told = [] if told is None else told
    return tune(
        planner,
        searcher,
        tasks,
        untuned_s,
        config=config,
        database=database,
        on_progress=lambda name, done: told.append(done),
    )


def test_a_task_of_a_large_share_has_all_rounds_as_a_child_and_as_a_source():
    """b takes 10 ms of 17 ms or more, and all others less than twice an even share."""
    rules = {"source_rounds": 1, "heavy_share": 0.1, "heavy_rounds": 3}
    rules["child_of"] = lambda task: replace(CHILD, heavy=replace(CHILD, rounds=3))
    searcher = Network()
    tuned("shares", tree_of(a="_", b="a", c="b", d="_"), searcher, **rules)
    assert [searcher.searched.count(letter) for letter in "abc"] == [1, 3, 1]
    searcher = Network()
    tuned("shares", tree_of(a="b", b="_", c="b", d="_"), searcher, **rules)
    assert [searcher.searched.count(letter) for letter in "abc"] == [1, 3, 1]
    searcher = Network()
    tuned("shares", tree_of(a="b", b="_", c="b", d="_"), searcher, **{**rules, "heavy_share": 0.9})
    assert [searcher.searched.count(letter) for letter in "abc"] == [1, 1, 1]
    searcher = Network()
    rules["child_of"] = lambda task: CHILD
    tuned("shares", tree_of(a="_", b="a", c="b", d="_"), searcher, **rules)
    assert [searcher.searched.count(letter) for letter in "abc"] == [1, 1, 1]


@pytest.mark.parametrize("name", PLANNERS)
def test_children_wait_for_their_parents_and_start_from_them(name):
    searcher, told = Network(), []
    results = tuned(name, tree_of(a="_", b="a", c="b", d="_"), searcher, told=told, source_rounds=2)
    order = searcher.searched
    assert order.index("a") < order.index("b") < order.index("c")
    assert [result.parent for result in results] == ["", A.name, B.name, ""]
    for letter, parent in (("b", "a"), ("c", "b")):
        first, *later = searcher.rounds(letter)
        # Two rounds of the source are before its child, whoever's turn it is; a child has one.
        rounds_before = order[: order.index(letter)].count(parent)
        assert rounds_before >= 2 if parent == "a" else rounds_before == 1
        assert (len(first.starts), first.budget.measured) == (1, 2)
        assert not any(request.starts for request in later)
    assert told == sorted(told) and told[-1] == 1.0


@pytest.mark.parametrize(("own_share", "rounds"), [(0.0, 4), (1.0, 1)])
def test_a_source_of_a_small_share_of_its_own_may_end_early(own_share, rounds):
    """a takes 1 ms of at least 3 ms of two tasks, or of 8 ms of three: less than an even share."""
    searcher = Network(a=0.001, b=0.010, d=0.005)
    tree, settings = tree_of(a="_", b="a", d="_"), {"min_latency_share": 0.0}
    limits = {"source_rounds": 4, "own_share": own_share}
    results = tuned("shares", tree, searcher, (TASKS[0], TASKS[1], TASKS[3]), settings=settings, **limits)
    assert searcher.searched.count("a") == rounds
    assert searcher.searched.count("b") == 1 and all(result.tuned_latency_s for result in results)


@pytest.mark.parametrize(("heavy_share", "rounds"), [(0.1, 3), (0.95, 2)])
def test_a_heavy_child_is_searched_in_all_rounds(heavy_share, rounds):
    """b takes 10 ms of 11 ms in three tasks: 2.7 even shares, and it needs twice 1.5 unless it is heavy."""
    searcher = Network(a=0.0005, b=0.010, c=0.0005)
    child = replace(CHILD, rounds=3, heavy=replace(CHILD, rounds=3))
    limits = {
        "source_rounds": 1,
        "heavy_share": heavy_share,
        "own_share": 1.5,
        "child_of": lambda task: child,
    }
    tuned("shares", tree_of(a="_", b="a", c="_"), searcher, TASKS[:3], **limits)
    assert searcher.searched.count("b") == rounds


@pytest.mark.parametrize("name", BUDGETED)
def test_the_budget_is_what_the_tree_asks_for(name):
    """Two rounds of the source, two programs of each child and eight of the task alone."""
    results = tuned(name, tree_of(a="_", b="a", c="b", d="_"), Network(), source_rounds=2)
    assert sum(result.candidates_measured for result in results) == 4 + 2 + 2 + 8


@pytest.mark.parametrize("name", BUDGETED)
def test_programs_are_kept_back_for_children(name):
    """The task alone may take all turns, so that the source has its first alone: its child still starts."""
    searcher = Network(a=1e-6, b=1e-6, d=0.010)
    tasks = (TASKS[0], TASKS[1], TASKS[3])
    results = tuned(name, tree_of(a="_", b="a", d="_"), searcher, tasks, [2e-6, 2e-6, 0.020])
    assert results[1].candidates_measured >= 2 and results[1].parent == A.name
    if name == "foresee":
        assert results[2].candidates_measured > results[0].candidates_measured
    assert sum(result.candidates_measured for result in results) == 8 + 2 + 8


def test_foresee_counts_a_parent_with_all_that_wait_for_it():
    searcher = Network()
    # Alone, d would be the bottleneck; a counts with the untuned b, which takes 20 ms.
    tuned("foresee", tree_of(a="_", b="a", d="_"), searcher, (TASKS[0], TASKS[1], TASKS[3]), source_rounds=2)
    assert searcher.searched.index("b") < 5
    assert searcher.searched[2] == "a"


def test_a_child_takes_turns_once_it_has_started():
    searcher = Network()
    tuned("foresee", tree_of(a="_", b="a", d="_"), searcher, (TASKS[0], TASKS[1], TASKS[3]), source_rounds=2)
    # b is five times as slow as d, which would have had what is left.
    first, *later = searcher.rounds("b")
    assert later and first.starts and not any(request.starts for request in later)


@pytest.mark.parametrize("name", BUDGETED)
def test_a_child_that_is_sent_back_brings_its_own_programs(name):
    class NoneRuns(Network):
        def __init__(self):
            super().__init__(lambda trace: math.inf, a=math.inf)

    searcher = NoneRuns()
    results = tuned(name, tree_of(a="_", b="a"), searcher, TASKS[:2], source_rounds=2)
    assert results[1].parent == "" and not searcher.rounds("b")[0].starts
    assert results[1].tuned_latency_s == 0.010
    assert sum(result.candidates_measured for result in results) == 8 + 8


@pytest.mark.parametrize("name", PLANNERS)
def test_rounds_of_a_child_of_which_nothing_ran_are_no_part_of_its_own_search(name):
    class OnlyStartsFail(Network):
        def reply(self):
            found = super().reply()
            as_child = NAMES[self.requests[-1].key] == "b" and self.requests[-1].starts
            return replace(found, proposals=found.proposals[:1]) if as_child else found

    searcher = OnlyStartsFail(lambda trace: math.inf)
    budget = ChildBudget(programs=1, starts=1)
    # Small shares would end the searches of the default planner.
    config = {"rounds": 2, "top_k": 4, "min_latency_share": 0.0}
    results = tuned(
        name, tree_of(a="_", b="a"), searcher, TASKS[:2], settings=config, child_of=lambda task: budget
    )
    first, *own = searcher.rounds("b")
    assert first.starts and own and not any(request.starts for request in own)
    assert results[1].parent == "" and results[1].tuned_latency_s == 0.010
    # One program as a child, and four of each task's own.
    assert sum(result.candidates_measured for result in results) == 4 + 4 + 1


@pytest.mark.parametrize("name", BUDGETED)
def test_a_child_sent_back_has_a_round_of_its_own_before_others_have_more(name):
    searcher = Network(lambda trace: math.inf, b=math.inf)
    tuned(name, tree_of(a="_", b="a"), searcher, TASKS[:2], child_of=lambda task: CHILD)
    first, second, *_ = [place for place, letter in enumerate(searcher.searched) if letter == "b"]
    assert second == first + 1


@pytest.mark.parametrize("name", PLANNERS)
def test_algorithm_1_has_a_round_for_each_of_its_steps(name):
    searcher = Steps([(0.004, 0.003), (0.005,)])
    tree = tree_of(a="_", b="a", c="b")
    results = tuned(name, tree, searcher, TASKS[:3], child_of=lambda task: STEP_BY_STEP, source_rounds=2)
    # The third round of b has nothing more, which ends its search; c waits for it.
    assert len(searcher.rounds("b")) == 3
    assert searcher.searched.rindex("b") < searcher.searched.index("c")
    assert (results[1].candidates_measured, results[1].parent) == (3, A.name)
    assert [request.budget.measured for request in searcher.rounds("c")][:3] == [2, 2, 2]


@pytest.mark.parametrize("name", PLANNERS)
@pytest.mark.parametrize("own", [(), [(math.inf, math.inf)]])
def test_a_child_of_algorithm_1_without_a_program_is_searched_by_itself(name, own):
    searcher = Steps(own)
    results = tuned(name, tree_of(a="_", b="a"), searcher, TASKS[:2], child_of=lambda task: STEP_BY_STEP)
    first, *later = searcher.rounds("b")
    assert first.parents and later and not any(request.parents for request in later)
    assert results[1].parent == "" and math.isfinite(results[1].tuned_latency_s)


@pytest.mark.parametrize("name", PLANNERS)
def test_a_child_whose_parent_is_of_another_run_goes_on_without_it(name):
    database = FakeDatabase(known={B.workload_hash: 0.004}, unfinished={B.workload_hash: 0})
    database.notes.note_parent(B, TaskName("gone", "0123"))
    searcher = Network()
    rules = {"child_of": lambda task: STEP_BY_STEP}
    results = tuned(name, tree_of(b="_"), searcher, [B], database=database, **rules)
    assert searcher.searched == "bbbb"  # all rounds of a search of its own
    assert not any(request.parents for request in searcher.requests)
    assert results[0].parent == ""


@pytest.mark.parametrize("name", PLANNERS)
def test_tasks_that_would_wait_for_each_other_are_searched(name):
    # An earlier run searched b from a, which this database lacks; the tree of this run has a wait for b.
    database = FakeDatabase(known={B.workload_hash: 0.004}, unfinished={B.workload_hash: 1})
    database.notes.note_parent(B, TaskName(A.name, A.workload_hash))
    searcher = Network()
    rules = {"child_of": lambda task: replace(CHILD, rounds=2), "known_programs": database.latencies_s}
    tree = tree_of(c="_", b="c", a="b")
    results = tuned(name, tree, searcher, TASKS[:3], database=database, **rules)
    assert set(searcher.searched) == set("abc")
    assert [result.parent for result in results] == ["", A.name, ""]


@pytest.mark.parametrize("name", BUDGETED)
def test_bridges_are_searched_as_those_that_wait_and_left_out_where_no_one_does(name):
    searcher = Network()
    results = tuned(name, tree_of(x="_", a="x", b="x"), searcher, TASKS[:2], bridges=[BRIDGE])
    assert searcher.searched[0] == "+"
    assert [result.parent for result in results] == [BRIDGE.name, BRIDGE.name, ""]
    searcher = Network()
    tuned(name, tree_of(a="_"), searcher, TASKS[:1], bridges=[BRIDGE])
    assert set(searcher.searched) == {"a"}


@pytest.mark.parametrize("name", BUDGETED)
def test_a_complete_run_leaves_nothing_to_do(name):
    database = FakeDatabase()
    tuned(name, tree_of(a="_", b="a"), Network(), TASKS[:2], database=database)
    assert set(database.unfinished.values()) == {None}
    again = FakeDatabase(dict.fromkeys((A.workload_hash, B.workload_hash), 0.001))
    again.notes = database.notes
    searcher = Network()
    results = tuned(name, tree_of(a="_", b="a"), searcher, TASKS[:2], database=again)
    assert not searcher.requests
    assert [result.parent for result in results] == ["", A.name]


@pytest.mark.parametrize("name", BUDGETED)
def test_topk_children_go_on_until_a_program_runs(name):
    searcher = Network(lambda trace: 0.002 if trace.endswith("3 1") else math.inf)
    budget = ChildBudget(starts=3, search=False)
    results = tuned(name, tree_of(a="_", b="a"), searcher, TASKS[:2], child_of=lambda task: budget)
    assert results[1].tuned_latency_s == 0.002


def test_a_family_informs_the_first_batch_of_a_child():
    searcher = Network()
    settings = {"share_surrogate": True, "families": "one"}
    tuned("foresee", tree_of(a="_", b="a"), searcher, TASKS[:2], settings=settings)
    (first, *_) = searcher.rounds("b")
    assert first.starts and {sibling.workload for sibling in first.siblings} == {A.workload_hash}
