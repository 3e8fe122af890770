"""Planners that spend one budget on all tasks: order, budgets, families, and the ends of a search."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
from foretune.inference.planners.budget import gradient
from foretune.inference.planners.registry import PLANNERS, planner_config
from foretune.inference.planners.shares import LatencySharePlanner
from foretune.inference.planners.turn_planner import make_planner
from foretune.inference.search.config import OneShotConfig, OneShotConfigError, StopConfig
from support.searchers import TASKS, FakeDatabase, FakeSearcher, tuner_of

BUDGETED = [name for name in PLANNERS if name != "shares"]
ALL = StopConfig(expected_improvement=0.0)


class Falling(FakeSearcher):
    """Proposes two programs a round; a task's latency falls by its `shrink` each round from its `first_s`."""

    def __init__(self, first_s, shrink):
        super().__init__()
        keys = [task.workload_hash for task in TASKS]
        self._first_s, self._shrink = (
            dict(zip(keys, first_s, strict=True)),
            dict(zip(keys, shrink, strict=True)),
        )

    def reply(self):
        key = self.requests[-1].key
        number = self._rounds.get(key, -1) + 1
        latency_s = self._first_s[key] * self._shrink[key] ** number
        self.latencies_s = [(latency_s, latency_s * 1.01)] * (number + 1)
        return super().reply()


def tuned(planner, searcher, tasks=TASKS, **settings):
    config = OneShotConfig(
        **{"rounds": 2, "top_k": 4, "finalists": 0, "stop": ALL, "planner": planner} | settings
    )
    told = []
    tuner = tuner_of(searcher, config=config, on_progress=lambda name, done: told.append(done))
    results = tuner.tune(tasks, [1.0] * len(tasks))
    return results, told


@pytest.mark.parametrize("planner", BUDGETED)
def test_the_budget_is_spent_and_every_task_has_a_round(planner):
    searcher = Falling((0.004, 0.010, 0.006), (0.9, 0.9, 0.9))
    results, told = tuned(planner, searcher)
    assert sum(result.candidates_measured for result in results) == 3 * 4
    assert sorted(searcher.order[:3]) == [0, 1, 2]
    assert told == sorted(told) and told[-1] == 1.0


def test_round_robin_gives_every_task_the_same():
    results, _ = tuned("round_robin", Falling((0.001, 0.1, 0.01), (0.5, 1.0, 0.9)), top_k=8, rounds=4)
    assert [result.candidates_measured for result in results] == [8] * 3


def test_gradient_is_metaschedules_rule():
    assert gradient([math.inf], 0.2) == math.inf
    # One round: there is no fall to see yet, and all of it is left.
    assert gradient([4.0], 0.2) == pytest.approx(0.8 * 4.0)
    # (10 - 4) / 3 over the last three rounds, 4 / 5 as if it could come to nothing.
    assert gradient([20.0, 10.0, 6.0, 5.0, 4.0], 0.2) == pytest.approx(0.2 * 2.0 + 0.8 * 0.8)
    assert gradient([math.inf, 4.0], 0.2) == pytest.approx(0.2 * 4.0 + 0.8 * 2.0)


def test_gradient_goes_where_the_network_spends_its_time():
    results, _ = tuned("gradient", Falling((1e-4, 0.02, 0.01), (1.0, 1.0, 1.0)), top_k=12, rounds=6)
    measured = [result.candidates_measured for result in results]
    assert measured[0] == 2  # its first round alone
    assert measured[2] < measured[1]
    # Falls of 20 and of 10 ms to the same 10 ms: the larger one is expected to go on.
    assert gradient([0.03, 0.01], 0.2) > gradient([0.02, 0.01], 0.2)


def test_foresee_gives_the_family_a_share_of_the_bottlenecks_round():
    searcher = Falling((0.001, 0.100, 0.010), (1.0, 1.0, 1.0))
    tuned({"name": "foresee", "proportion": 0.5}, searcher, top_k=8, rounds=4)
    asked = zip(searcher.order, searcher.requests, strict=True)
    budgets = [(number, request.budget.measured) for number, request in asked]
    # Every task first; then 1, the bottleneck, and 2, which is the slowest of the rest of its family.
    assert sorted(number for number, _ in budgets[:3]) == [0, 1, 2]
    turns = budgets[3:]
    assert turns[::2] == [(1, 2)] * len(turns[::2])
    assert all(number == 2 and measured == 1 for number, measured in turns[1::2])


def test_foresee_has_no_turn_for_a_family_of_one():
    searcher = Falling((0.001, 0.100, 0.010), (1.0, 1.0, 1.0))
    tuned("foresee", searcher, top_k=8, rounds=4, families="each")
    assert searcher.order[3:] == [1] * len(searcher.order[3:])
    searcher = Falling((0.001, 0.100, 0.010), (1.0, 1.0, 1.0))
    tuned({"name": "foresee", "proportion": 0.5}, searcher, top_k=8, rounds=4, families="one")
    assert set(searcher.order[4::2]) == {2}


def test_foresee_adds_up_the_fractions_of_a_program():
    searcher = Falling((0.001, 0.100, 0.010), (1.0, 1.0, 1.0))
    tuned("foresee", searcher, top_k=8, rounds=4)
    # A quarter of two programs is half a program: every second turn of the bottleneck lends one.
    turns = searcher.order[3:]
    assert len(turns) >= 3 and turns == ([1, 1, 2] * len(turns))[: len(turns)]


@pytest.mark.parametrize("planner", BUDGETED)
def test_a_task_that_fails_in_all_its_programs_leaves_its_budget_to_others(planner):
    """It ends by the surrogate's rule or the budget, and the others of its family come to their best."""
    searcher = Falling((math.inf, 0.010, 0.006), (1.0, 0.9, 0.9))
    results, _ = tuned(planner, searcher, share_surrogate=True, families="one")
    assert results[0].tuned_latency_s is None and results[0].reason == "no candidate ran"
    assert all(result.tuned_latency_s is not None for result in results[1:])


@pytest.mark.parametrize("planner", BUDGETED)
def test_a_family_may_differ_by_a_thousand_times_in_latency(planner):
    results, _ = tuned(planner, Falling((1e-5, 1e-2, 1e-4), (0.9, 0.9, 0.9)), share_surrogate=True)
    assert all(result.tuned_latency_s is not None for result in results)


@dataclass
class _Loop:
    gain: float | None
    known: list = field(default_factory=list)

    def expected_gain(self, count):
        return self.gain


def test_headroom_goes_by_what_a_second_is_expected_to_save():
    planner = make_planner(OneShotConfig(planner="headroom"))

    class Search:
        def __init__(self, network_s, gain, program_s, recent=0.2):
            self.stake_s, self.program_s = network_s, program_s
            self.loop = _Loop(gain)
            self.progress = type("Progress", (), {"expected_gain": recent})

    slow_and_done = Search(0.100, 0.001, 1.0)
    fast_and_open = Search(0.010, 0.050, 1.0)
    costly = Search(0.010, 0.100, 10.0)
    without_leftovers = Search(0.001, None, 1.0)
    rates = [planner._saving_rate(one) for one in (slow_and_done, fast_and_open, costly, without_leftovers)]
    assert rates == pytest.approx([1e-4, 5e-4, 1e-4, 2e-4])


def test_what_is_complete_is_searched_again_with_extra_rounds_alone():
    known = {task.workload_hash: 0.002 for task in TASKS}
    searcher = FakeSearcher()
    config = OneShotConfig(rounds=2, top_k=4, planner="round_robin", stop=ALL)
    tuner_of(searcher, FakeDatabase(known), config=config).tune(TASKS, [1.0] * 3)
    assert searcher.order == []
    more = OneShotConfig(rounds=2, top_k=4, planner="round_robin", stop=ALL, extra_rounds=1)
    tuner_of(searcher, FakeDatabase(known), config=more).tune(TASKS, [1.0] * 3)
    assert sorted(set(searcher.order)) == [0, 1, 2]


def test_a_budget_that_is_spent_leaves_nothing_to_do():
    """However few rounds a task had; an interrupted run goes on with what is left of its own."""
    database = FakeDatabase()
    config = OneShotConfig(rounds=4, top_k=8, planner="foresee", stop=ALL, finalists=0)
    tuner_of(Falling((0.001, 0.1, 0.01), (1.0, 1.0, 1.0)), database, config=config).tune(TASKS, [1.0] * 3)
    assert set(database.unfinished.values()) == {None}
    names = [task.workload_hash for task in TASKS]
    stopped = FakeDatabase(dict.fromkeys(names, 0.5), {names[0]: 3})
    searcher = Falling((0.001, 0.1, 0.01), (1.0, 1.0, 1.0))
    (result, *_) = tuner_of(searcher, stopped, config=config).tune(TASKS, [1.0] * 3)
    assert result.candidates_measured == 2 and searcher.order == [0]


def test_settings_of_planners():
    assert isinstance(make_planner(OneShotConfig()), LatencySharePlanner)
    assert planner_config({"name": "foresee", "proportion": 0.4}).proportion == 0.4
    with pytest.raises(OneShotConfigError, match=r"search\.planner=luck: unknown; use search/planner="):
        OneShotConfig(planner="luck")
    with pytest.raises(
        OneShotConfigError, match=r"search\.planner\.p: the planner foresee has no such setting"
    ):
        OneShotConfig(planner={"name": "foresee", "p": 0.1})
    for proportion in (0.0, 1.0):
        with pytest.raises(OneShotConfigError, match=r"search\.planner\.proportion=.*over 0 and below 1"):
            OneShotConfig(planner={"name": "foresee", "proportion": proportion})
    with pytest.raises(OneShotConfigError, match=r"search\.planner\.alpha=2"):
        OneShotConfig(planner={"name": "gradient", "alpha": 2.0})
