"""The rule for exchanging a library."""

from __future__ import annotations

import math

import pytest
from foretune.inference.anytime.rule import ExchangeRule, left_of_search_s


@pytest.mark.parametrize(
    ("expected_s", "cost_s", "left_s", "due"),
    [
        (0.009, 5.0, 100.0, True),  # 10 % less for 5 % of the time
        (0.0091, 5.0, 100.0, False),
        (0.009, 5.1, 100.0, False),
        (0.009, 5.1, math.inf, True),
        (0.009, 0.0, 0.0, True),
        (math.inf, 0.0, math.inf, False),
    ],
)
def test_a_library_must_be_much_faster_for_little_time(
    expected_s: float, cost_s: float, left_s: float, due: bool
) -> None:
    assert ExchangeRule().is_due(expected_s, 0.010, cost_s, left_s) is due


def test_any_library_is_better_than_none() -> None:
    assert ExchangeRule().is_due(5.0, math.inf, 1.0, 100.0)
    assert not ExchangeRule().is_due(math.inf, math.inf, 1.0, 100.0)


@pytest.mark.parametrize(
    ("budget_left_s", "share_done", "left_s"),
    [(40.0, 0.9, 40.0), (-1.0, 0.5, 0.0), (None, 0.25, 90.0), (None, 0.0, math.inf), (None, 1.0, 0.0)],
)
def test_the_time_that_is_left_is_the_budget_or_follows_from_the_rounds(
    budget_left_s: float | None, share_done: float, left_s: float
) -> None:
    assert left_of_search_s(budget_left_s, 30.0, share_done) == pytest.approx(left_s)
