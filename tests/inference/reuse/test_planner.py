"""The reuse planner with searchers and devices that do as told."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from foretune.inference.database.tuning_notes import TaskName
from foretune.inference.reuse.donors import ParentsBest
from foretune.inference.reuse.rules import ChildBudget
from foretune.inference.reuse.selection import ReuseSelection
from foretune.inference.reuse.tree import ROOT
from foretune.inference.search.config import StopConfig
from foretune.inference.search.limits import Limits
from support.reuse_trees import (
    BRIDGE,
    CONFIG,
    NAMES,
    STEP_BY_STEP,
    TASKS,
    A,
    B,
    C,
    StartingSearcher,
    Steps,
    planner_of,
    tree_of,
    tune,
)
from support.searchers import FakeDatabase, measuring_into, network_tuner


def test_a_child_waits_for_its_parent_and_begins_with_its_fastest_programs():
    searcher = StartingSearcher(latencies_s=((0.006, 0.004), (0.003, 0.005)))
    results = tune(planner_of(tree_of(a="_", b="a", c="b")), searcher, TASKS[:3])
    # a is searched in full, in two rounds of two programs; b and c get a round each.
    assert searcher.searched == "aabc"
    (child,) = searcher.rounds("b")
    key = A.workload_hash
    assert child.starts == tuple(f"b as {key} {p}" for p in ("1 0", "0 1", "1 1", "0 0"))
    assert child.budget.measured == 4  # not more than the whole search of a task
    assert [result.parent for result in results] == ["", A.name, B.name]
    # Only starts were measured, all of 2 ms: ties go by their names.
    (grandchild,) = searcher.rounds("c")
    assert set(grandchild.starts) == {f"c as {start}" for start in child.starts}
    assert [result.candidates_measured for result in results] == [4, 4, 4]
    assert [result.tuned_latency_s for result in results] == [0.003, 0.002, 0.002]


def test_a_child_gets_its_budget():
    config = replace(CONFIG, top_k=48, rounds=2, stop=StopConfig(minimum=4, expected_improvement=0))
    searcher = StartingSearcher(latencies_s=(tuple(0.004 + 1e-5 * n for n in range(24)),))
    planner = planner_of(
        tree_of(a="_", b="a"), config=config, child_of=lambda task: ChildBudget(programs=8, starts=3)
    )
    results = tune(planner, searcher, TASKS[:2], config=config)
    (child,) = searcher.rounds("b")
    assert (len(child.starts), child.budget.measured, child.budget.quick) == (3, 8, False)
    assert [result.candidates_measured for result in results] == [48, 8]


def test_branches_go_side_by_side():
    searchers = [StartingSearcher(), StartingSearcher()]
    tune(planner_of(tree_of(a="_", b="_", c="a", d="b")), searchers)
    order = [searcher.searched for searcher in searchers]
    assert sorted("".join(order)) == list("aabbcd")
    # Neither waits for the other's branch.
    assert all(set(each) & {"a", "b"} for each in order)


def test_children_of_a_parent_without_a_program_are_searched_in_full():
    class NoneRuns(StartingSearcher):
        def reply(self):
            self.latencies_s = ((math.inf,),) if NAMES[self.requests[-1].key] == "a" else ((0.004,),)
            return super().reply()

    searcher = NoneRuns()
    results = tune(planner_of(tree_of(a="_", b="a", c="b")), searcher, TASKS[:3])
    assert searcher.searched == "aabbc"  # c can reuse b
    assert [result.parent for result in results] == ["", "", B.name]
    assert not searcher.rounds("b")[0].starts


def test_a_child_whose_round_had_no_program_is_searched_in_full():
    def start_s(trace):
        return math.inf

    class OnlyLater(StartingSearcher):
        def reply(self):
            own = NAMES[self.requests[-1].key]
            self.latencies_s = ((math.inf,), (0.004,)) if own == "b" else ((0.004,),)
            return super().reply()

    searcher = OnlyLater(start_s)
    results = tune(planner_of(tree_of(a="_", b="a")), searcher, TASKS[:2])
    # Its round as a child does not count among the two of a search in full.
    assert searcher.searched == "aabbb"
    assert results[1].tuned_latency_s == 0.004


def test_algorithm_1_has_a_round_for_each_of_its_steps():
    searcher = Steps([(0.004, 0.003), (0.005,)])
    results = tune(
        planner_of(tree_of(a="_", b="a", c="b"), child_of=lambda task: STEP_BY_STEP), searcher, TASKS[:3]
    )
    # The third round of b has nothing more, which ends its search; c waits for it.
    assert searcher.searched.startswith("aabbbc")
    assert {request.parents[0].trace for request in searcher.rounds("b")} == {f"{A.workload_hash} 1 0"}
    assert {request.parents[0].trace for request in searcher.rounds("c")} == {f"{B.workload_hash} step 1 1"}
    assert (results[1].candidates_measured, results[1].parent) == (3, A.name)


def test_algorithm_1_ends_at_the_candidates_that_a_search_in_full_measures():
    searcher = Steps([(0.004, 0.003)] * 9)
    budget = replace(STEP_BY_STEP, total=5)
    results = tune(planner_of(tree_of(a="_", b="a"), child_of=lambda task: budget), searcher, TASKS[:2])
    assert [request.budget.measured for request in searcher.rounds("b")] == [2, 2, 1]
    assert results[1].candidates_measured == 5


@pytest.mark.parametrize("own", [(), [(math.inf, math.inf)]])
def test_a_child_of_algorithm_1_without_a_program_is_searched_in_full(own):
    searcher = Steps(own)
    planner = planner_of(tree_of(a="_", b="a"), child_of=lambda task: STEP_BY_STEP)
    results = tune(planner, searcher, TASKS[:2])
    assert [len(request.parents) for request in searcher.rounds("b")] == [1, 0, 0]
    assert results[1].parent == ""
    assert results[1].tuned_latency_s == 0.003


def test_without_any_reuse_pair_each_task_is_searched_as_without_reuse():
    alone, beside = StartingSearcher(), StartingSearcher()
    tune(planner_of(tree_of(a="_", b="_", c="_"), source_rounds=1), alone, TASKS[:3])
    tune(None, beside, TASKS[:3])
    assert [vars(request) for request in alone.requests] == [vars(request) for request in beside.requests]


def test_tasks_that_would_wait_for_each_other_are_searched():
    # An earlier run searched b from a, which this database lacks; the tree of this run has a wait for b.
    database = FakeDatabase(known={B.workload_hash: 0.004}, unfinished={B.workload_hash: 1})
    database.notes.note_parent(B, TaskName(A.name, A.workload_hash))
    searcher = StartingSearcher()
    planner = planner_of(
        tree_of(c="_", b="c", a="b"),
        child_of=lambda task: ChildBudget(rounds=2),
        known_programs=database.latencies_s,
    )
    results = tune(planner, searcher, TASKS[:3], database=database)
    assert [searcher.searched.count(letter) for letter in "abc"] == [2, 1, 2]
    assert searcher.searched.index("b") > searcher.searched.rindex("a")
    assert not any(request.starts for request in searcher.requests)
    assert [result.parent for result in results] == ["", A.name, ""]


def test_a_child_that_no_program_fits_is_searched_in_full():
    searcher = StartingSearcher()
    starts = ParentsBest(lambda parent, trace, child: None)
    tune(planner_of(tree_of(a="_", b="a"), starts=starts), searcher, TASKS[:2])
    assert searcher.searched == "aabb"


def test_tasks_that_the_tree_leaves_out_are_searched_in_full():
    searcher = StartingSearcher()
    tune(planner_of(tree_of(a="_")), searcher, TASKS[:2])
    assert sorted(searcher.searched) == list("aabb")


def test_bridges_come_first_and_are_no_part_of_the_network():
    searcher = StartingSearcher()
    planner = planner_of(tree_of(a="_", x="a", b="x", c="_"), bridges=[BRIDGE])
    tuner = network_tuner(CONFIG, measuring_into([]), [searcher], FakeDatabase(), planner=planner)
    results = tuner.tune(TASKS[:3], [0.01] * 3)
    # The bridge comes as soon as its parent is done, before c.
    assert searcher.searched.index("+") < searcher.searched.index("b")
    assert searcher.rounds("+")[0].starts[0].startswith("+ as")
    assert [result.name for result in results] == [A.name, B.name, C.name, BRIDGE.name]
    assert results[3].weight == 0
    assert results[3].untuned_latency_s is None
    assert tuner.curve[0][1] == pytest.approx(0.03)
    assert tuner.curve[-1][1] == pytest.approx(sum(r.tuned_latency_s for r in results[:3]))


def test_a_bridge_that_is_searched_in_full_gets_the_rounds_of_those_that_wait():
    # Alone, it would count with no latency and get one round.
    searcher = StartingSearcher()
    planner = planner_of(tree_of(x="_", a="x", b="x"), bridges=[BRIDGE])
    tune(planner, searcher, TASKS[:2])
    assert searcher.searched in ("++ab", "++ba")


def test_a_bridge_that_the_tree_does_without_is_not_searched():
    searcher = StartingSearcher()
    results = tune(planner_of(tree_of(a="_"), bridges=[BRIDGE]), searcher, TASKS[:1])
    assert searcher.searched == "aa"
    assert [result.name for result in results] == [A.name]


def test_a_small_task_gets_few_rounds_and_a_small_parent_those_of_its_children():
    class Steady(StartingSearcher):
        def reply(self):
            seconds = {"a": 0.001, "b": 0.010, "c": 0.001, "d": 0.010}[NAMES[self.requests[-1].key]]
            self.latencies_s = ((seconds,),)
            return super().reply()

    # d reuses a, which is as small as c. An even share of all is 5.5 ms at the end.
    searcher = Steady(lambda trace: 0.010)
    config = replace(CONFIG, rounds=4, top_k=4)
    tune(planner_of(tree_of(a="_", b="_", c="_", d="a"), config=config), searcher, config=config)
    assert [searcher.searched.count(letter) for letter in "abcd"] == [4, 4, 1, 1]


def test_finished_tasks_of_the_database_are_parents_at_once():
    database = FakeDatabase(known={A.workload_hash: 0.004})
    searcher = StartingSearcher()
    planner = planner_of(tree_of(a="_", b="a"), known_programs=database.latencies_s)
    results = tune(planner, searcher, TASKS[:2], database=database)
    assert searcher.searched == "b"
    assert searcher.rounds("b")[0].starts == ("b as from the database",)
    assert results[0].from_database
    assert results[1].parent == A.name


def test_an_interrupted_run_goes_on_in_the_middle_of_the_tree():
    # a had one of its two rounds; b, a child, had its only one; c had none.
    known = {A.workload_hash: 0.004, B.workload_hash: 0.004}
    database = FakeDatabase(known=known, unfinished={A.workload_hash: 1, B.workload_hash: 1})
    database.notes.note_parent(B, TaskName(A.name, A.workload_hash))
    searcher = StartingSearcher()
    planner = planner_of(tree_of(a="_", b="a", c="b"), known_programs=database.latencies_s)
    tune(planner, searcher, TASKS[:3], database=database)
    assert searcher.searched in ("ac", "ca")
    assert searcher.rounds("c")[0].starts == ("c as from the database",)


def test_a_child_that_went_back_to_the_search_goes_on_with_it_after_an_interrupt():
    # In the first run b went back and had one of its two rounds; the tree still has it as a child.
    known = {A.workload_hash: 0.004, B.workload_hash: 0.004}
    database = FakeDatabase(known=known, unfinished={B.workload_hash: 1})
    searcher = StartingSearcher()
    tune(planner_of(tree_of(a="_", b="a")), searcher, TASKS[:2], database=database)
    assert searcher.searched == "b"
    assert not searcher.rounds("b")[0].starts


def test_who_reused_whom_is_noted_and_comes_back():
    database = FakeDatabase()
    planner = planner_of(tree_of(a="_", b="a"), known_programs=database.latencies_s)
    tune(planner, StartingSearcher(), TASKS[:2], database=database)
    assert database.notes.parent(A) is None
    assert database.notes.parent(B) == TaskName(A.name, A.workload_hash)
    again = FakeDatabase(
        known={task.workload_hash: 0.002 for task in (A, B)}, unfinished={B.workload_hash: 1}
    )
    again.notes = database.notes
    searcher = StartingSearcher()
    results = tune(planner_of(tree_of(a="_", b="_")), searcher, TASKS[:2], database=again)
    assert not searcher.requests  # it stays a child, whatever the tree would be now
    assert [(result.parent, result.parent_hash) for result in results] == [
        ("", ""),
        (A.name, A.workload_hash),
    ]


def test_a_child_that_goes_back_has_no_parent():
    class OnlyLater(StartingSearcher):
        def reply(self):
            own = NAMES[self.requests[-1].key]
            self.latencies_s = ((math.inf,), (0.004,)) if own == "b" else ((0.004,),)
            return super().reply()

    database = FakeDatabase()
    results = tune(
        planner_of(tree_of(a="_", b="a")), OnlyLater(lambda trace: math.inf), TASKS[:2], database=database
    )
    assert results[1].parent == ""
    assert database.notes.parent(B) is None


def test_a_parent_that_no_run_knows_any_more_is_not_asked_for():
    database = FakeDatabase(known={B.workload_hash: 0.004}, unfinished={B.workload_hash: 1})
    database.notes.note_parent(B, TaskName("gone", "0123"))
    budget = ChildBudget(rounds=2)
    searcher = StartingSearcher()
    tune(planner_of(tree_of(b="_"), child_of=lambda task: budget), searcher, [B], database=database)
    assert searcher.searched == "b"  # its second round
    assert not searcher.rounds("b")[0].starts


def test_a_child_whose_parent_is_of_another_run_goes_on_without_it():
    # An earlier run, on another network, was stopped in the middle of Algorithm 1.
    database = FakeDatabase(known={B.workload_hash: 0.004}, unfinished={B.workload_hash: 0})
    database.notes.note_parent(B, TaskName("gone", "0123"))
    searcher = StartingSearcher()
    planner = planner_of(tree_of(b="_"), child_of=lambda task: STEP_BY_STEP)
    results = tune(planner, searcher, [B], database=database)
    assert searcher.searched == "bb"  # all rounds of a search in full
    assert not any(request.parents for request in searcher.requests)
    assert results[0].parent == ""


def test_under_a_time_budget_children_begin_quickly():
    searcher = StartingSearcher()
    planner = planner_of(tree_of(a="_", b="a"), breadth_first=True)
    limits = Limits(breadth_first=True, latency_target_s=0.0065)
    tune(planner, searcher, TASKS[:2], limits=limits)
    assert searcher.searched == "ab"  # the target is reached
    assert [request.budget.quick for request in searcher.requests] == [True, True]
    assert len(searcher.rounds("b")[0].starts) == 2


def test_extra_rounds_are_for_those_that_had_their_own():
    config = replace(CONFIG, extra_rounds=1)
    searcher = StartingSearcher()
    tune(planner_of(tree_of(a="_", b="a"), config=config), searcher, TASKS[:2], config=config)
    assert searcher.searched.startswith("aab")
    assert searcher.rounds("b")[0].starts


def test_progress_never_falls_and_ends_with_all():
    told = []
    tune(
        planner_of(tree_of(a="_", b="a", c="b", d="_")),
        StartingSearcher(),
        on_progress=lambda name, done: told.append(done),
    )
    assert told == sorted(told)
    assert told[-1] == 1
    assert told[0] < 0.5


class Reselecting(ReuseSelection):
    """Lets c reuse b once a shows the sketch that it asks for."""

    def __init__(self):
        self.heard = []

    def tree(self, begun, sketches):
        self.heard.append((dict(begun), dict(sketches)))
        parent = "b" if sketches.get(A.workload_hash) == "tiled" else "_"
        return tree_of(a="_", b="a", c=parent)


def test_the_tree_is_selected_again_with_what_is_known():
    selection = Reselecting()
    searcher = StartingSearcher()
    planner = planner_of(selection, sketch_of=lambda task, trace: "tiled")
    results = tune(planner, searcher, TASKS[:3], [0.02, 0.02, 0.001])  # c comes last
    assert results[2].parent == B.name
    begun, sketches = selection.heard[-1]
    assert begun == {
        A.workload_hash: ROOT,
        B.workload_hash: A.workload_hash,
        C.workload_hash: B.workload_hash,
    }
    assert sketches == dict.fromkeys(begun, "tiled")
