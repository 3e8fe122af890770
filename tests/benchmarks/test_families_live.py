"""Live searches of the benchmark of families: which run, and their curves."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from foretune.errors import UserError
from tvm.s_tir.meta_schedule.runner import RunnerResult

from benchmarks.families import REUSE, THREE_QUARTERS, live
from benchmarks.families.__main__ import beside
from benchmarks.networks.contest import Budget


def test_a_call_keeps_what_earlier_ones_ran_live():
    known = {"a": {"runs": [1], "stock": [2]}, "b": {"runs": [3]}}
    assert beside(known, {"a": {"stock": [4]}, "c": {}}) == {
        "a": {"runs": [1], "stock": [4]},
        "b": {"runs": [3]},
        "c": {},
    }


def test_a_curve_begins_where_each_task_that_ran_has_a_latency():
    tasks = [SimpleNamespace(name=name, weight=weight) for name, weight in (("a", 2), ("take", 1), ("b", 1))]
    curve = live.Curve(tasks)
    for task, seconds in ((0, [0.3, 0.2]), (1, None), (2, [0.5]), (0, [0.1]), (2, [0.9])):
        curve.note(task, [RunnerResult(seconds, None if seconds else "ended")])
    points = curve.points()
    assert [latency_s for *_, latency_s in points] == pytest.approx([0.9, 0.7, 0.7])
    assert [programs for _, programs, _ in points] == [3, 4, 5]
    assert curve.left_out() == ["take"]


def test_an_unknown_search_is_named():
    with pytest.raises(UserError, match="--searches 'fastest': the part live knows \"shares\""):
        live.live(lambda *_: None, ["resnet18"], 1, ["fastest"], Path(), {})


def test_a_search_has_the_seconds_of_one_that_is_run_too():
    with pytest.raises(UserError, match='--searches "headroom": it has the seconds of "shares"; name both'):
        live.live(lambda *_: None, ["resnet18"], 1, ["headroom"], Path(), {})


def test_the_searches_of_a_run_are_chosen(monkeypatch):
    asked = []

    def one_of_each(network, seed, folder, searches, overrides, budgets):
        asked.append((network, seed, list(searches), budgets))
        return {name: {"seed": seed} for name in searches}

    def ran(names, seeds):
        return live.live(lambda name, settings, make: make(), ["a"], seeds, names, Path(), found)

    monkeypatch.setattr(live.contest, "one_of_each", one_of_each)
    monkeypatch.setattr(live, "stock", lambda network, name, seed, trials: {"seed": seed, "trials": trials})
    found = {"b": {"runs": []}}
    found = ran([REUSE, "stock, foresee"], 1)
    assert found == {
        "a": {"runs": [{REUSE: {"seed": 0}}], "stock": [{"stock, foresee": {"seed": 0, "trials": 128}}]},
    }
    found = ran([REUSE, "stock, foresee"], 2)
    assert [one[REUSE]["seed"] for one in found["a"]["runs"]] == [0, 1]
    assert [one["stock, foresee"]["seed"] for one in found["a"]["stock"]] == [0, 1]
    found = ran([REUSE, THREE_QUARTERS], 1)
    assert [len(one) for one in found["a"]["runs"]] == [1, 1, 2]
    budget = {THREE_QUARTERS: Budget(REUSE, 0.75, start=True)}
    assert asked == [
        *(("a", seed, [REUSE], {}) for seed in (0, 1)),
        ("a", 0, [REUSE, THREE_QUARTERS], budget),
    ]
