"""The doors TaskPlanner and StartSource: one fake each in a real tuner."""

from __future__ import annotations

from dataclasses import replace

import pytest
from foretune.inference.planners.base import Round, TaskPlanner
from foretune.inference.search.loop import RoundBudget
from foretune.inference.starts.base import Start, StartSource
from support.searchers import TASKS, UNTUNED_S, FakeDatabase, FakeSearcher, tuner_of


class ParentFirst(TaskPlanner):
    """Searches a helper of weight 0 first, whose best program the other task begins with."""

    def surrogate_group(self, task):
        return "family"

    def begin(self, searches):
        self.helper, self.child = searches

    def next_round(self, preferred, others):
        if self.helper in preferred and not self.helper.rounds:
            return Round(self.helper, RoundBudget(1))
        if self.helper.full_rounds and self.child in preferred and not self.child.rounds:
            best = min(self.helper.loop.known, key=lambda measurement: measurement.latency_s)
            return Round(self.child, RoundBudget(2), starts=(best.trace,))
        return None

    def share_done(self):
        return 0.5 * (bool(self.helper.rounds) + bool(self.child.rounds))


def test_a_planner_orders_tasks_and_gives_budgets_and_starts():
    helper, child = replace(TASKS[0], weight=0), TASKS[1]
    searcher, database = FakeSearcher(), FakeDatabase()
    tuner = tuner_of(searcher, database, planner=ParentFirst())
    results = tuner.tune([helper, child], [0.5, 0.030])
    assert searcher.order == [0, 1]
    assert [request.budget.measured for request in searcher.requests] == [1, 2]
    assert [request.surrogate_group for request in searcher.requests] == ["family"] * 2
    assert searcher.requests[0].starts == ()
    assert searcher.requests[1].starts == (f"{helper.workload_hash} 0 0",)
    assert [result.candidates_measured for result in results] == [1, 2]
    # The helper has a schedule, and is no part of the network's latency.
    assert results[0].tuned_latency_s == 0.004
    assert [latency_s for _, latency_s in tuner.curve] == pytest.approx([0.030, 0.030, 0.004])


class Known(StartSource):
    """Knows one program by its latency, and one that is to be measured."""

    def starts(self, task):
        return [Start("measured", 0.02), Start("adapted")]


def test_start_sources_teach_and_give_candidates_once():
    searcher = FakeSearcher()
    tuner_of(searcher, start_sources=[Known()]).tune(TASKS[:1], UNTUNED_S[:1])
    first, second = searcher.requests
    assert first.learned == {"measured": 0.02}
    assert first.starts == ("adapted",)
    assert second.starts == ()
    assert "measured" not in second.learned
