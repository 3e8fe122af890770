"""The experiments on reuse: their settings, and the parts of a run that are kept."""

from __future__ import annotations

import json

import pytest
from foretune.compiler.operators import Dense, to_task
from foretune.compiler.operators.registry import OPERATOR_SETTINGS
from foretune.compiler.tvm_compat import parse_target
from foretune.errors import UserError
from foretune.inference.run.network_set import members_of
from foretune.inference.run.result import BY_LOAD, Contestant
from support.records import HARDWARE

from benchmarks.common import write_json
from benchmarks.kept_runs import earlier_result, notes_of
from benchmarks.networks import contest, loaded
from benchmarks.reuse import __main__ as subject
from benchmarks.reuse import operator_sets, second_shapes, single_pairs
from benchmarks.reuse.__main__ import (
    arguments_of,
    networks,
    pairs,
    runs_of,
    sets,
    shapes,
)
from benchmarks.reuse.methods import METHODS, Searched, settings_of


def one_of_each(auto, fewer, off=(100, 50.0, 0.010)):
    runs = dict(zip(("auto", "fewer", "off"), (auto, fewer, off), strict=True))
    found = {name: {"measured": n, "search_s": s} for name, (n, s, _) in runs.items()}
    return {**found, "side_by_side_s": {name: latency for name, (*_, latency) in runs.items()}}


def test_a_second_shape_is_tuned_behind_the_first_with_its_database(tmp_path, monkeypatch):
    asked = []

    def run(checkout, network, seed, overrides, *, database, export, timed):
        asked.append((overrides[0], database))
        assert (export is None) == (len(asked) == 1) and not timed
        return {"seed": seed, "measured": 8, "stage_s": {"search and measure": 2.0}}

    def time_in_fresh_process(library, inputs):
        assert [array.shape for array in inputs] == [(4, 3, 224, 224)]
        seconds = {"second": 0.002, "alone": 0.001}[library.stem]
        return [Contestant(BY_LOAD, samples_s=[seconds], median_s=seconds, min_s=seconds)]

    monkeypatch.setattr(second_shapes, "tune", run)
    monkeypatch.setattr(loaded, "time_in_fresh_process", time_in_fresh_process)
    words = ["--part", "shapes", "--networks", "resnet18", "nowhere", "--runs-in", str(tmp_path)]
    arguments = arguments_of(words)
    runs = runs_of(arguments)
    (found,) = shapes(arguments, runs)["shapes"]["resnet18"]
    assert found["first"]["search_s"] == 2.0
    assert (found["second"]["tuned_s"], found["alone"]["tuned_s"]) == (0.002, 0.001)
    (first, (name, database)), (_, none) = asked[:2], asked[2]
    assert first == ("batch=1", database) and name == "batch=4"
    assert database is not None and none is None
    assert "--networks nowhere" in runs.failures[0]["error"]


def test_plans_are_of_estimates_alone(monkeypatch):
    tasks = [to_task(Dense(rows=64, in_features=64, out_features=width)) for width in (64, 128, 256)]
    monkeypatch.setattr(subject, "tasks_of", lambda name: tasks)
    monkeypatch.setattr(subject, "TRIALS", (1, 1000))
    few, many = (plan for plan in subject.plans_of("any") if plan["bridges"] == "none")
    assert (few["operators"], few["searched"], few["backend"], few["estimated"]) == (3, 3, 3, 3.0)
    assert (many["searched"], many["backend"]) == (1, 3000)
    assert 1002 <= many["estimated"] < 2000


def test_a_search_counts_programs_up_to_its_best():
    one = Searched("eto", [0.004, float("inf"), 0.002, 0.003], 8.0, {}, None, False)
    assert one.summary() == {
        "programs": 4,
        "programs_to_best": 3,
        "seconds": 8.0,
        "seconds_to_best": 6.0,
        "best_s": 0.002,
        "by_backend": False,
    }
    assert Searched("eto", [float("inf")], 8.0, {}, None, False).summary()["best_s"] is None


def test_methods_search_as_they_say():
    settings = {method: settings_of(method, 64, seed=3) for method in METHODS}
    assert {method: one.strategy.name for method, one in settings.items()} == {
        "backend": "stock",
        "eto": "reuse",
        "eto_ranked": "reuse",
        "eto_one_core": "reuse",
        "top_k": "stock",
    }
    by_model = ("eto_ranked", "eto_one_core")
    assert {one.top_k for method, one in settings.items() if method not in by_model} == {64}
    assert all(settings[method].top_k <= 64 / 3 for method in by_model)
    assert [settings[method].strategy.one_core_flops for method in by_model] == [0, 5e5]
    assert {one.seed for one in settings.values()} == {3}
    sets = {method: operator_sets.settings_of(method, 64, 0) for method in operator_sets.METHODS}
    assert sets["backend"].strategy.name == "stock"
    assert [sets[name].eto.bridges for name in ("eto", "eto_no_bridges", "eto_all_bridges")] == [
        "one_hop",
        "none",
        "all",
    ]
    assert sets["auto"].strategy.name == "draft"
    assert {name for name, config in sets.items() if config.templates} == {"auto"}


def test_types_and_sets_are_known():
    assert set(single_pairs.TYPES.values()) <= set(OPERATOR_SETTINGS)
    assert [len(members_of(**one)) for one in operator_sets.SETS.values()] == [1] * 7 + [8, 2]


def test_pairs_of_a_type_are_the_same_each_time_and_can_reuse_each_other():
    target = parse_target({"kind": "llvm", "num-cores": 2})
    first, again = (single_pairs.pairs_of("FRB", 3, target, 64) for _ in range(2))
    assert [(one.parent.workload_hash, one.child.workload_hash) for one in first] == [
        (one.parent.workload_hash, one.child.workload_hash) for one in again
    ]
    assert len(first) == 3
    assert {task.operator for pair in first for task in (pair.parent, pair.child)} == {"frobenius_norm"}
    assert all(0 < pair.estimated < 64 for pair in first)


def test_pairs_of_few_operators_come_first_and_those_that_eto_would_not_choose_last():
    first, second, third, fourth = (
        to_task(Dense(rows=8, in_features=8, out_features=n)) for n in (1, 2, 3, 4)
    )
    pairs = [
        single_pairs.Pair(first, second, 90.0),
        single_pairs.Pair(first, second, 5.0),
        single_pairs.Pair(third, fourth, 5.0),
        single_pairs.Pair(second, third, 70.0),
        single_pairs.Pair(second, first, 5.0),
    ]
    found = single_pairs.chosen(pairs, 4, 64)
    assert found == [pairs[1], pairs[4], pairs[2], pairs[3]]


def test_estimates_are_of_searches_by_algorithm_1_alone():
    def run(estimated, programs, by_backend):
        return {
            "estimated": estimated,
            "methods": {"eto": {"programs": programs, "by_backend": by_backend}},
        }

    found = single_pairs.estimates([run(30.0, 20, False), run(10.0, 20, False), run(50.0, 64, True)])
    assert found == {"mean": 1.0, "low": 0.5, "high": 1.5, "pairs": 2}
    assert single_pairs.estimates([run(50.0, 64, True)]) is None


def test_the_further_runs_of_a_large_network_come_last():
    turns = subject.turns_of(["densenet121", "resnet18"], 3)
    assert turns == [
        *[("densenet121", 0), ("resnet18", 0), ("resnet18", 1), ("resnet18", 2)],
        *[("densenet121", 1), ("densenet121", 2)],
    ]


def test_a_set_is_searched_by_each_method_and_goes_on_where_it_was(tmp_path, monkeypatch):
    made = []

    def one_run(name, method, trials, seed):
        made.append((name, method))
        return {"operators": 1, "searched": 1, "bridges": 0, "programs": 9, "seconds": 2.0, "best": ["{}"]}

    def timed(name, runs):
        made.append((name, *runs))
        return dict.fromkeys(runs, 0.001)

    monkeypatch.setattr(operator_sets, "one_run", one_run)
    monkeypatch.setattr(operator_sets, "timed", timed)
    words = ["--part", "sets", "--sets", "dcgan", "--runs-in", str(tmp_path)]
    arguments = arguments_of(words)
    found = sets(arguments, runs_of(arguments))["sets"]
    methods = ["backend", "eto", "selective", "auto"]
    assert made == [*[("dcgan", method) for method in methods], ("dcgan", *methods)]
    assert [list(run) for run in found["dcgan"]] == [methods]
    assert found["dcgan"][0]["eto"] == {
        **{"trials": 64, "operators": 1, "searched": 1, "bridges": 0, "programs": 9, "seconds": 2.0},
        "latency_s": 0.001,
    }
    late = arguments_of([*words[:2], *words[4:], "--minutes", "-1"])
    runs = runs_of(late)
    assert sets(late, runs)["sets"] == {}
    assert "mobilenetv2-eto_no_bridges-0" in runs.left_out
    assert sets(arguments, runs_of(arguments))["sets"] == found
    assert len(made) == 5


def test_a_part_goes_on_from_the_committed_result_of_the_machine(tmp_path, monkeypatch):
    made = []

    def run(network, seed, folder, searches, overrides):
        made.append((network, seed))
        one = one_of_each((40, 25.0, 0.010), (40, 25.0, 0.012))
        return {**one, "off": {**one["off"], "seed": seed}}

    monkeypatch.setattr(contest, "one_of_each", run)
    words = ["--part", "networks", "--networks", "resnet18", "--out", str(tmp_path), "--runs-in"]
    one = arguments_of([*words, str(tmp_path / "a"), "--runs", "1"])
    folder = tmp_path / "reuse_networks" / "some-cpu"
    write_json(folder / "result.json", {"overrides": [], **networks(one, runs_of(one))})
    write_json(folder / "manifest.json", {"commit": "abc", "notes": ""})
    more = arguments_of([*words, str(tmp_path / "b"), "--runs", "2", "--extend"])
    earlier = earlier_result(more, "reuse_networks", HARDWARE)
    found = networks(more, runs_of(more, earlier))
    assert made == [("resnet18", 0), ("resnet18", 1)]
    assert [one["off"]["seed"] for one in found["networks"]["resnet18"]["runs"]] == [0, 1]
    assert notes_of(earlier) == "adds to the runs of commit abc"
    again = {**earlier, "commit": "def", "notes": notes_of(earlier)}
    assert notes_of(again) == "adds to the runs of commit abc; adds to the runs of commit def"
    twice = {**again, "notes": notes_of(again)}
    assert notes_of(twice) == notes_of(again)
    others = arguments_of([*words, str(tmp_path / "b"), "--extend", "--", "search.rounds=2"])
    with pytest.raises(UserError, match=r"overrides=\[\], this run \['search.rounds=2'\]"):
        earlier_result(others, "reuse_networks", HARDWARE)
    assert earlier_result(one, "reuse_networks", HARDWARE) == {} and notes_of({}) == ""


def test_a_set_with_all_its_methods_is_not_searched_again(tmp_path, monkeypatch):
    counts = {"operators": 1, "searched": 1, "bridges": 0, "programs": 9, "seconds": 2.0, "best": ["{}"]}
    made = []

    def one_run(name, method, trials, seed):
        made.append((name, method))
        return counts

    monkeypatch.setattr(operator_sets, "one_run", one_run)
    monkeypatch.setattr(operator_sets, "timed", lambda name, runs: dict.fromkeys(runs, 0.001))
    arguments = arguments_of(["--part", "sets", "--sets", "dcgan", "bert_base", "--runs-in", str(tmp_path)])
    methods = operator_sets.methods_of("dcgan")
    every = {method: {"programs": 9} for method in methods}
    found = sets(arguments, runs_of(arguments, {"sets": {"dcgan": [every], "bert_base": [{"backend": {}}]}}))
    assert made == [("bert_base", method) for method in methods]
    assert found["sets"]["dcgan"] == [every]
    assert [list(run) for run in found["sets"]["bert_base"]] == [methods]


def test_pairs_share_the_backends_searches_of_their_operators(tmp_path, monkeypatch):
    small, large = (to_task(Dense(rows=8, in_features=8, out_features=n)) for n in (8, 16))
    listed = [single_pairs.Pair(small, large, 9.0), single_pairs.Pair(large, small, 9.0)]
    asked, made = [], []

    def searched(method, task, *arguments, **options):
        asked.append((method, task.name))
        return Searched(method, [0.002], 1.0, {"trace": 0.002}, "{}", True)

    def one_pair(pair, source, backend, pool, target, *, trials, seed, timed, stock):
        assert timed
        made.append((pair.child.name, source.measured))
        summary = {**backend.summary(), "by_backend": False}
        return {
            **{"parent": pair.parent.name, "child": pair.child.name, "estimated": pair.estimated},
            **{"methods": dict.fromkeys(METHODS, summary), "latency_s": {"eto": 0.001}},
        }

    monkeypatch.setattr(single_pairs, "pairs_of", lambda kind, count, target, trials, drawn: listed)
    monkeypatch.setattr(single_pairs, "one_pair", one_pair)
    monkeypatch.setattr("benchmarks.reuse.__main__.searched", searched)
    arguments = arguments_of(
        ["--part", "pairs", "--types", "FRB", "--pairs", "2", "--runs-in", str(tmp_path)]
    )
    found = pairs(arguments, runs_of(arguments))
    assert asked == [("backend", small.name), ("backend", large.name)]
    assert made == [(large.name, {"trace": 0.002}), (small.name, {"trace": 0.002})]
    assert found["estimates"] == {"mean": 9.0, "low": 9.0, "high": 9.0, "pairs": 2}
    assert pairs(arguments, runs_of(arguments)) == found
    assert (len(asked), len(made)) == (2, 2)


def test_runs_are_kept_and_failures_are_named(tmp_path, monkeypatch):
    made = []

    def run(network, seed, folder, searches, overrides):
        made.append((network, seed, overrides))
        if network == "nowhere":
            raise OSError("no such network")
        return one_of_each((40, 25.0, 0.010), (40, 25.0, 0.012))

    monkeypatch.setattr(contest, "one_of_each", run)
    words = [
        "--part",
        "networks",
        "--networks",
        "resnet18",
        "nowhere",
        "--runs",
        "1",
        "--runs-in",
        str(tmp_path),
    ]
    arguments = arguments_of([*words, "--", "search.rounds=2"])
    runs = runs_of(arguments)
    assert list(networks(arguments, runs)["networks"]) == ["resnet18"]
    assert [failure["run"] for failure in runs.failures] == ["nowhere-0"]
    networks(arguments, runs_of(arguments))
    assert made == [("resnet18", 0, ["search.rounds=2"]), *[("nowhere", 0, ["search.rounds=2"])] * 2]
    assert (
        json.loads((tmp_path / "networks" / "resnet18-0.json").read_text())["settings"]["network"]
        == "resnet18"
    )
