"""Shares that ranges hold, worked by hand; and the choice of counterparts."""

from __future__ import annotations

import numpy as np
import pytest
from foretune.inference.eto.search.program_features import COUNTERPARTS
from foretune.inference.reuse.conditions import Operator
from hypothesis import given
from hypothesis import strategies as st
from support.paths import ROOT

from benchmarks.reuse_ranges import (
    CHOICES,
    CHOSEN_ON,
    KINDS,
    Measured,
    analysed,
    chance,
    of_gpus,
    pair_rows,
    reuse_pairs,
    summary,
)


def measured(name, extents, latencies_s, values, has_best=True):
    operator = Operator("matmul", extents, (False, False, True), block=None)
    features = {
        (kind, counterpart): np.array(values, float)
        for kind, of in COUNTERPARTS.items()
        for counterpart in of
    }
    return Measured(operator, np.array(latencies_s), features, has_best, name)


PARENT = measured("p", (8, 8, 8), [2.0, 1.0, 3.0], [4, 16, 64])
CHILD = measured("c", (16, 8, 8), [1.0, 1.05, 2.0, 4.0], [32, 8, 16, 64])


def test_a_range_keeps_what_is_between_the_parents_value_and_twice_that():
    (row,) = pair_rows([(CHILD, PARENT)], np.random.default_rng(0))
    # r2 = 2, r1 = 1: 16 to 32 for all three. Two of four are inside, one of two fast ones among them.
    for name in ("blocks/chunks", "threads/vectors", "+".join(CHOICES[0])):
        hit, kept, expected, elsewhere, _ = row[name]
        assert (hit, kept) == (1.0, 0.5)
        assert expected == pytest.approx(1 - (2 / 4) * (1 / 3))  # both drawn among the two slow ones: 1/6
        assert 0 <= elsewhere <= 1


def test_pairs_are_ordered_and_the_parents_best_is_of_the_sketch():
    other = measured("o", (8, 16, 8), [1.0], [1], has_best=False)
    found = reuse_pairs({"key": [PARENT, CHILD, other]})
    # o has longer columns than c, and c longer rows: neither dominates.
    names = [child.workload_hash + parent.workload_hash for child, parent in found]
    assert names == ["pc", "cp", "op"]


@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 9))
def test_chance_is_that_of_drawing_without_putting_back(programs, fast, kept):
    from itertools import combinations

    fast, kept = min(fast, programs), min(kept, programs)
    draws = list(combinations(range(programs), kept))
    hits = sum(any(number < fast for number in draw) for draw in draws)
    assert chance(programs, fast, kept) == pytest.approx(hits / len(draws))


def test_the_choice_exceeds_chance_the_most_on_its_dataset():
    means = {"+".join(choice): {"hit": 0.5, "chance": 0.5} for choice in CHOICES}
    means["+".join(CHOICES[5])] = {"hit": 0.5, "chance": 0.4}
    found = summary({CHOSEN_ON: {"pairs": 2, "means": means}, "none": {"pairs": 0, "means": {}}})
    assert found["chosen"] == "+".join(CHOICES[5])
    assert set(found["datasets"]) == {CHOSEN_ON}


def test_programs_of_a_gpu_have_the_papers_own_features():
    found = analysed(ROOT / "data" / "gpu-tuned", 3, 0, least=6)
    assert set(found["means"]) == {*(f"{kind}/{kind}" for kind in KINDS), "+".join(KINDS)}
    assert found["pairs"] == 3 and found["tasks"] == 13
    together, blocks = (found["means"][name]["kept"] for name in ("+".join(KINDS), "blocks/blocks"))
    assert 0 < together <= blocks < 1
    assert of_gpus({"tuned": found, "none": {"pairs": 0}})["datasets"] == {"tuned": found}
