"""Expected gain of another round, by hand."""

from __future__ import annotations

import math

import pytest
from foretune.inference.planners.expected_gain import FIRST_GAIN, Progress, gain, most_promising


def progress(latency_s=0.010, gains=(), weight=1, round_s=5.0):
    return Progress(weight, latency_s, gains, round_s)


def test_the_next_round_goes_where_a_second_saves_most():
    # 10 ms x 0.2 / 5 s = 0.4 ms/s; two calls of 8 ms: 0.64 ms/s; 40 ms that gained 2 % and 4 %: 0.12 ms/s.
    tasks = [progress(), progress(0.008, weight=2), progress(0.040, gains=(0.02, 0.04), round_s=10.0)]
    assert [task.saving_rate * 1e3 for task in tasks] == pytest.approx([0.4, 0.64, 0.06 * 2 * 0.5])
    assert most_promising(tasks) == 1
    assert progress().expected_gain == FIRST_GAIN


def test_two_rounds_without_gain_are_the_end():
    assert not progress(gains=(0.0,)).converged
    assert not progress(gains=(0.0, 0.02)).converged
    assert progress(gains=(0.5, 0.0, 0.009)).converged
    assert most_promising([progress(gains=(0.0, 0.0))]) is None
    assert most_promising([]) is None


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(0.010, 0.008, 0.2), (0.010, 0.011, 0.0), (math.inf, 0.01, 1.0), (math.inf, math.inf, 0.0)],
)
def test_a_gain_is_a_share_of_what_was(before, after, expected):
    assert gain(before, after) == pytest.approx(expected)
