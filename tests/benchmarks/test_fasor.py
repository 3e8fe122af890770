"""Fasor's search beside the default one: what is run."""

from __future__ import annotations

import pytest

from benchmarks.fasor import SEARCHES, arguments_of, networks
from benchmarks.kept_runs import KeptRuns
from benchmarks.networks import contest
from benchmarks.tables.declare import names


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
    assert set(SEARCHES) - {"stock"} <= set(names()["search"])
    with pytest.raises(SystemExit):
        arguments_of(["--searches", "faster"])
