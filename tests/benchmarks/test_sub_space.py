"""Weights and kept shares of the sub-space benchmark, worked by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from foretune.compiler.structure.read_traces import SketchReader
from foretune.inference.fasor.primitives import PRIMITIVES
from support.drafts import matmul, matmul_trace

from benchmarks.sub_space import at_random, means, pairs_of, summary, weights_of


def test_a_pair_differs_in_one_primitive():
    traces = [
        matmul_trace(),
        matmul_trace(unroll=3),
        matmul_trace(i=[1, 2, 2, 2]),  # the factors of one core
        matmul_trace(i=[1, 2, 2, 2], unroll=1),
        matmul_trace(i=[4, 1, 1, 2], unroll=0, k=[16, 2]),
    ]
    found = pairs_of(
        [json.dumps(trace) for trace in traces], SketchReader(matmul()), np.random.default_rng(0)
    )
    assert {name: sorted(pairs) for name, pairs in found.items()} == {
        "unrolling": [(0, 1), (2, 3)],
        "parallel": [(0, 2)],
    }


def test_weights_are_mean_differences_and_0_without_a_pair():
    weights = weights_of([["split", 1.0, 0.5], ["split", 2.0, 0.0], ["fuse", 0.25, 4.0]])
    assert weights["memory"]["split"] == 1.5 and weights["core"]["split"] == 0.25
    assert weights["memory"]["fuse"] == 0.25 and weights["core"]["fuse"] == 4.0
    assert weights["memory"]["unrolling"] == 0.0
    assert set(weights["memory"]) == set(weights["core"]) == set(PRIMITIVES)


def test_means_leave_out_tasks_without_a_program_inside():
    found = means([[1e-2, 0.5, 0.8, 0.9], [1e-4, 0.0, 0.0, 0.0]])
    assert found == pytest.approx(
        {
            "tasks": 2,
            "tasks_inside": 1,
            "size": 1e-3,
            "programs": 0.25,
            "best_kept": 0.8,
            "best_at_random": 0.9,
        }
    )


def test_programs_at_random_keep_the_best_where_all_are_drawn():
    rng = np.random.default_rng(0)
    latencies_s = np.array([1.0, 2.0, 4.0])
    assert at_random(latencies_s, 3, rng) == 1.0
    assert at_random(latencies_s, 0, rng) == 0.0
    assert at_random(latencies_s, 1, rng, draws=4000) == pytest.approx((1 + 0.5 + 0.25) / 3, abs=0.03)


def test_the_summary_counts_pairs_and_tasks():
    rows = {str(count): [0.1, 0.5, 1.0, 0.9] for count in (5, 6, 7, 8)}
    pairs = {"cpu": {"tasks": 3, "pairs": [["split", 1.0, 0.5]]}}
    found = summary(weights_of(pairs["cpu"]["pairs"]), pairs, {"cpu": [rows]})
    assert found["pairs"]["split"] == 1 and found["pairs"]["fuse"] == 0
    assert found["weight_tasks"] == {"cpu": 3} and found["judged_tasks"] == {"cpu": 1}
    assert found["kept"]["5"]["best_kept"] == 1.0
