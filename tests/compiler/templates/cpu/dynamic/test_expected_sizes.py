"""Weights of sizes in the choice of kernels, by hand-worked values."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import pytest
from foretune.compiler.templates.cpu.dynamic.choice import choose, sampled_sizes
from foretune.compiler.templates.cpu.dynamic.expected_sizes import expected_values, size_weights
from tvm import tirx

from tests.compiler.templates.cpu.dynamic.kernels import Network, product, symbol, tensor

N, B = tirx.Var("n", "int64"), tirx.Var("b", "int64")


def ends(_: Any) -> tuple[int, int]:
    return 1, 2


def test_sizes_are_weighed_by_their_distance_on_a_logarithmic_scale() -> None:
    spread = np.array([log(2), log(4), log(5 / 2)])
    assert size_weights([1, 2, 4], {}) == pytest.approx(spread / spread.sum())
    # 5 is outside of the sizes
    assert size_weights([1, 2, 4], {5: 1.0}) == pytest.approx(spread / spread.sum())


def test_expected_sizes_have_four_fifths_of_the_weight() -> None:
    """3 counts for 4, which is nearer to it than 2: 4/3 is less than 3/2."""
    spread = size_weights([1, 2, 4], {})
    weights = size_weights([1, 2, 4], {1: 1.0, 3: 3.0})
    assert weights == pytest.approx(0.2 * spread + 0.8 * np.array([0.25, 0, 0.75]))


def test_values_of_an_expression_follow_those_of_its_variables() -> None:
    assert expected_values(N * 4, {"n": {1: 3.0, 2: 1.0}}, ends) == {4: 3.0, 8: 1.0}
    assert expected_values(N * B, {"n": {3: 1.0}, "b": {1: 2.0, 2: 1.0}}, ends) == {3: 2.0, 6: 1.0}
    assert expected_values(N * B, {"n": {3: 1.0}}, ends) == {3: 1.0, 6: 1.0}
    assert expected_values(N * B, {"m": {3: 1.0}}, ends) == {}


def test_many_sizes_become_few_and_keep_the_most_frequent_one() -> None:
    counts = dict.fromkeys(range(1, 2001), 1.0) | {777: 1000.0}
    found = expected_values(N, {"n": counts}, ends)
    assert len(found) <= 576
    assert sum(found.values()) == sum(counts.values())
    assert max(found, key=found.__getitem__) == 777


def test_expected_sizes_are_rated() -> None:
    assert 301 not in sampled_sizes(1, 512)
    assert 301 in sampled_sizes(1, 512, {301: 1.0, 600: 1.0})
    assert 600 not in sampled_sizes(1, 512, {301: 1.0, 600: 1.0})


SIZES = range(1, 101)
TIMES = np.array([[1.0 + (size >= 10) for size in SIZES], [1.0 + (size < 10) for size in SIZES]])
"""Times of a kernel for small sizes and of one for large sizes: each is half as fast on one side of 10."""


def test_expected_sizes_decide_between_kernels() -> None:
    for expected, best in ((5, "small"), (50, "large")):
        family = choose(["small", "large"], SIZES, TIMES, most=1, counts={expected: 3.0})
        assert family.members == (best,)
        assert family.regret_mean < 0.2
        assert family.regret_worst == 1


def test_unexpected_sizes_get_no_slow_kernel() -> None:
    family = choose(["small", "large"], SIZES, TIMES, counts={50: 1.0})
    assert family.regret_worst == 0


def test_sizes_of_a_network_reach_its_tables() -> None:
    def made(counts: dict[str, dict[int, float]]) -> Any:
        data, weight = tensor("data", symbol("batch"), 20), tensor("weight", 20, 40)
        values = np.zeros((20, 40), np.float32)
        tensors = [data, weight, product(data, weight)]
        network = Network(tensors, {"batch": (1, 64)}, constants={1: values}, counts=counts)
        return network.made.tasks[0].tables

    assert made({"batch": {1: 1.0}}) != made({"batch": {64: 1.0}})
    assert made({}) == made({"other": {1: 1.0}})
