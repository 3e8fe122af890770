"""Tests of the tables of families, with hand-worked runs."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from foretune.errors import UserError
from tvm.s_tir.meta_schedule.runner import RunnerResult

from benchmarks.families import BASE, REUSE, THREE_QUARTERS, live
from benchmarks.families.__main__ import beside
from benchmarks.networks.contest import Budget
from benchmarks.tables import families
from benchmarks.tables.contests import contest_rows


def results_of(part, values):
    result = SimpleNamespace(values={part: values}, machine="CPU")
    return SimpleNamespace(of=lambda benchmark: [result] if benchmark == "families" else [])


def run(**searches):
    """One run of each search by (programs, seconds, latency)."""
    found = {name: {"measured": n, "search_s": s} for name, (n, s, _) in searches.items()}
    return {**found, "side_by_side_s": {name: latency for name, (*_, latency) in searches.items()}}


def test_rows_of_a_contest_are_ratios_to_its_base():
    runs = [
        run(base=(100, 10.0, 0.010), other=(50, 5.0, 0.020)),
        run(base=(100, 10.0, 0.010), other=(50, 20.0, 0.005)),
    ]
    assert list(contest_rows(runs, "base")) == [["other", "2", "0.50x", "1.00x", "1.00x (0.50x to 2.00x)"]]
    assert list(contest_rows([], "base")) == []


def test_live_searches_are_beside_the_planner_by_shares():
    part = {"resnet18": {"runs": [run(shares=(10, 4.0, 0.010), headroom=(5, 2.0, 0.011))]}}
    assert "| CPU | ResNet-18 | headroom | 1 | 0.50x | 0.50x | 1.10x |" in families.live(
        results_of("live", part)
    )


def test_means_are_over_networks_of_means_over_runs():
    part = {
        "resnet18": {
            "runs": [
                run(shares=(10, 4.0, 0.010), headroom=(5, 2.0, 0.020)),
                run(shares=(10, 4.0, 0.010), headroom=(20, 8.0, 0.020)),
            ]
        },
        "bert_base": {"runs": [run(shares=(10, 4.0, 0.010), headroom=(40, 16.0, 0.005))]},
        "vit_base": {"runs": [run(shares=(10, 4.0, 0.010))], "stock": []},
    }
    table = families.live_means(results_of("live", part))
    for machine in ("CPU", "all"):
        row = f"| headroom | shares | {machine} | 2 | 3 | 2.00x | 2.00x | 1.00x (0.50x to 2.00x) |"
        assert row in table
    assert "| foresee |" not in table


def test_planning_with_reuse_is_beside_reuse_alone():
    searches = {REUSE: (10, 4.0, 0.010), THREE_QUARTERS: (8, 3.0, 0.011)}
    runs = [run(**{BASE: (20, 8.0, 0.010), REUSE: (10, 4.0, 0.020)}), run(**searches)]
    part = {"resnet18": {"runs": runs}, "bert_base": {}}
    table = families.with_reuse(results_of("live", part))
    assert f"| CPU | ResNet-18 | {THREE_QUARTERS} | 1 | 0.80x | 0.75x | 1.10x |" in table
    assert f"| {BASE} |" not in table
    assert "2.00x" in families.live(results_of("live", part))


def test_what_replay_says_is_beside_what_is_found_live():
    planners = {"gradient": {"full": 1.0}, "headroom": {"full": 1.02}, "round_robin": {"full": 1.0}}
    runs = [run(gradient=(9, 1.0, 0.010), headroom=(9, 1.0, latency)) for latency in (0.0080, 0.0125)]
    result = SimpleNamespace(
        values={"replay": {"planners": {"resnet18": planners}}, "live": {"resnet18": {"runs": runs}}},
        machine="CPU",
    )
    table = families.predicted(SimpleNamespace(of=lambda _: [result]))
    assert "| `data/networks` | CPU | ResNet-18 | headroom | 1.020x | 1.000x | 2 |" in table
    assert "up to 2.0% apart, live up to 0.0%; replay and live differ by 2.0% by the median" in " ".join(
        table.split()
    )
    assert "round_robin" not in table


@pytest.mark.parametrize(
    ("foresee", "cells"),
    [
        ([[10.0, 0.03], [40.0, 0.01]], "0.50x, 1 of 1 | 0.50x, 1 of 1 | 0.50x"),
        ([[10.0, 0.03], [60.0, 0.0208]], "0.75x, 1 of 1 | 0.75x, 0 of 1 | 1.04x"),
    ],
    ids=["reached", "not reached"],
)
def test_stock_searches_are_compared_at_the_last_latency(foresee, cells):
    gradient = {"curve": [[20.0, 0.04], [80.0, 0.02], [90.0, 0.02]], "left_out": ["take"]}
    others = {"stock, gradient": gradient, "stock, foresee": {"curve": foresee, "left_out": []}}
    stock = [{**others, "stock, foresee": {"curve": foresee, "left_out": ["take"]}}, others]
    part = {"resnet18": {"stock": stock}, "bert_base": {"runs": []}}
    table = families.stock(results_of("live", part))
    assert f"| CPU | ResNet-18 | foresee (Algorithm 1) | 1 | {cells} |" in table
    assert "fade" not in table.split("\n\n")[0]


def test_parts_that_are_not_there_name_their_command():
    empty = results_of("live", {"resnet18": {"runs": []}, "bert_base": {}})
    for table in (families.live, families.predicted, families.stock):
        assert table(empty) == "Not measured yet: `python -m benchmarks.families --part live`."
    assert f'--searches "{REUSE}" "{THREE_QUARTERS}"`' in families.with_reuse(empty)


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
    assert [latency_s for _, latency_s in curve.points()] == pytest.approx([0.9, 0.7, 0.7])
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
    monkeypatch.setattr(live, "stock", lambda network, name, seed: {"seed": seed})
    found = {"b": {"runs": []}}
    found = ran([REUSE, "stock, foresee"], 1)
    assert found == {
        "a": {"runs": [{REUSE: {"seed": 0}}], "stock": [{"stock, foresee": {"seed": 0}}]},
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
