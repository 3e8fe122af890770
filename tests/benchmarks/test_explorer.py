"""The benchmark of explorers: equal numbers of programs, and what it averages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from foretune.dataset.features.recorded_spaces import RecordedSpace
from support.exploration import JudgedByHand, random_explorer, recorded, space_of

from benchmarks.explorer import Searches, means, recorded_scores
from benchmarks.tables.declare import names


def environment() -> JudgedByHand:
    return JudgedByHand(lambda values: np.abs(np.log2(values[:, 3]) - 3))


def test_every_search_rates_as_many_different_programs():
    space = space_of(recorded())
    found = Searches(environment(), random_explorer(), space, 48, (0, 1)).all()
    assert list(found) == list(names()["explorer"])
    for name, visited in found.items():
        assert len(space.space.unique(visited.choices)) == len(visited.time) == 48, name
    # All but evolution, which keeps them in an order of its own, begin with the same random programs.
    for name in ("random_moves", "dqn, high_efficiency"):
        np.testing.assert_array_equal(found[name].choices[:16], found["random"].choices[:16])


def with_programs(count: int) -> RecordedSpace:
    found = recorded()
    programs = found.space.unique(found.space.sample(2 * count, np.random.default_rng(0)))[:count]
    return replace(found, programs=programs, latencies_s=np.arange(1.0, count + 1))


def test_walks_among_all_recorded_programs_find_the_fastest():
    scores = recorded_scores(with_programs(30), environment(), random_explorer(), 30, (0,))
    assert set(scores.values()) == {1.0}


def test_a_sketch_with_few_records_is_left_out():
    assert recorded_scores(with_programs(10), environment(), random_explorer(), 5, (0,)) is None


def test_means_are_over_the_sketches_that_all_searches_have():
    rows = [
        {"part": "test", "score": {"a": 0.5, "b": 1.0}, "judged": {"a": 0.2, "b": None}, "recorded": None},
        {"part": "test", "score": {"a": 0.7, "b": 0.0}, "judged": {"a": 0.4, "b": 0.6}, "recorded": None},
    ]
    found = means(rows)["test"]
    assert found["score"] == pytest.approx({"sketches": 2, "a": 0.6, "b": 0.5})
    assert found["judged"] == pytest.approx({"sketches": 1, "a": 0.4, "b": 0.6})
    assert found["recorded"] == {"sketches": 0}
    assert means(rows)["unseen_operators"]["sketches"] == 0
