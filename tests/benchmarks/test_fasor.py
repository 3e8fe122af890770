"""Fasor's search beside the default one: what is run, and the table."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks.fasor.__main__ import SEARCHES, arguments_of, networks
from benchmarks.kept_runs import KeptRuns
from benchmarks.networks import contest
from benchmarks.tables import exploration


def ran(default, fasor, **others):
    named = {"default": default, "fasor": fasor, **others}
    found = {name: {"seed": 0, "measured": n, "search_s": s} for name, (n, s, _) in named.items()}
    return {**found, "side_by_side_s": {name: latency for name, (*_, latency) in named.items()}}


def test_each_network_is_tuned_by_each_search_and_goes_on_where_it_was(tmp_path, monkeypatch):
    made = []

    def one_of_each(network, seed, folder, searches, overrides):
        made.append((network, seed, list(searches)))
        return ran((100, 50.0, 0.010), (0, 5.0, 0.011))

    monkeypatch.setattr(contest, "one_of_each", one_of_each)
    words = ["--networks", "resnet18", "vgg16", "--searches", "fasor", "--runs-in", str(tmp_path)]
    arguments = arguments_of(words)
    found = networks(arguments, KeptRuns(arguments, 1.0))["networks"]
    searches = ["default", "fasor"]
    assert made == [("resnet18", 0, searches), ("vgg16", 0, searches)]
    assert networks(arguments, KeptRuns(arguments, 1.0))["networks"] == found
    extended = KeptRuns(arguments, -1.0, earlier={"networks": {"resnet18": found["resnet18"]}})
    again = arguments_of([*words, "--again"])
    assert networks(again, extended)["networks"] == {"resnet18": found["resnet18"]}
    assert extended.left_out == ["vgg16-0"] and len(made) == 2
    more = arguments_of([*words[:3], "--searches", "fasor", "pretuned", *words[5:]])
    extended = KeptRuns(more, 1.0, earlier={"networks": found})
    assert [len(each["runs"]) for each in networks(more, extended)["networks"].values()] == [2, 2]
    assert made[2:] == [(name, 0, [*searches, "pretuned"]) for name in ("resnet18", "vgg16")]


def test_the_searches_are_known():
    assert SEARCHES["default"] == ()
    assert set(SEARCHES) == {"default", exploration.STOCK, *exploration.SEARCHES, *exploration.EXCHANGED}
    with pytest.raises(SystemExit):
        arguments_of(["--searches", "faster"])


def test_the_table_has_latency_and_time_beside_the_default_search():
    values = {
        "networks": {
            "resnet18": {"runs": [ran((100, 50.0, 0.010), (25, 5.0, 0.011))]},
            "vgg16": {"runs": [ran((300, 50.0, 0.010), (75, 20.0, 0.044))]},
        }
    }
    result = SimpleNamespace(values=values, machine="CPU")
    table = exploration.fasor(SimpleNamespace(of=lambda benchmark: [result]))
    assert (
        "| CPU | Fasor as published | 1.10x (0.10x) | 4.40x (0.40x) | 2.20x (0.20x) of 2 | 0.25x |" in table
    )
    assert "high_efficiency" not in table
    assert "python -m benchmarks.fasor" in exploration.fasor(SimpleNamespace(of=lambda benchmark: []))


def test_a_part_is_compared_with_the_published_search_of_its_own_contest():
    alone = ran((100, 50.0, 0.010), (0, 5.0, 0.030))
    beside = ran((100, 50.0, 0.010), (0, 5.0, 0.020), without_pretuned=(0, 4.0, 0.025))
    values = {"networks": {"resnet18": {"runs": [alone, beside]}}}
    result = SimpleNamespace(values=values, machine="CPU")
    table = exploration.fasor_parts(SimpleNamespace(of=lambda benchmark: [result]))
    assert "| machine | search | ResNet-18 | all |" in table
    assert "| CPU | without pretuned starts | 1.25x (0.80x) | 1.25x (0.80x) of 1 |" in table
    only = SimpleNamespace(values={"networks": {"resnet18": {"runs": [alone]}}}, machine="CPU")
    assert "benchmarks.fasor" in exploration.fasor_parts(SimpleNamespace(of=lambda benchmark: [only]))


def test_another_table_has_speed_and_time_beside_stock_where_it_ran():
    values = {
        "networks": {
            "resnet18": {
                "runs": [
                    ran((100, 50.0, 0.010), (25, 5.0, 0.011), stock=(400, 500.0, 0.022)),
                    ran((100, 50.0, 0.010), (25, 5.0, 0.011)),
                ]
            },
            "vgg16": {"runs": [ran((300, 50.0, 0.010), (75, 20.0, 0.044))]},
        }
    }
    result = SimpleNamespace(values=values, machine="CPU")
    table = exploration.fasor_stock(SimpleNamespace(of=lambda benchmark: [result]))
    assert "| machine | search | ResNet-18 | all | programs |" in table
    assert "| CPU | default | 2.20x (0.10x) | 2.20x (0.10x) of 1 | 0.25x |" in table
    assert "| CPU | Fasor as published | 2.00x (0.01x) | 2.00x (0.01x) of 1 | 0.06x |" in table
    without = SimpleNamespace(values={"networks": {"vgg16": values["networks"]["vgg16"]}}, machine="CPU")
    assert "benchmarks.fasor" in exploration.fasor_stock(SimpleNamespace(of=lambda benchmark: [without]))
