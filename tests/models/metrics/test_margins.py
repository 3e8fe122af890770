"""Margins of one model over another, and whether they are clear."""

from __future__ import annotations

import math

import numpy as np
import pytest
from foretune.models.metrics.margins import LEAST_TASKS, paired_margin


def test_a_difference_on_all_of_enough_tasks_is_clear() -> None:
    differences = np.linspace(0.01, 0.3, LEAST_TASKS)
    margin = paired_margin(differences)
    assert margin.ahead == pytest.approx(differences.mean()) and margin.tasks == LEAST_TASKS
    assert 0 < margin.low < margin.ahead < margin.high
    assert margin.clear and paired_margin(-differences).clear


@pytest.mark.parametrize("tasks", [2, 3, LEAST_TASKS - 1])
def test_few_tasks_are_never_clear(tasks: int) -> None:
    margin = paired_margin(np.linspace(0.2, 0.3, tasks))
    assert margin.low > 0 and not margin.clear


def test_differences_of_both_signs_are_not_clear() -> None:
    assert not paired_margin(np.array([-0.3, 0.2, -0.1, 0.4, 0.1, -0.2, 0.3, 0.0])).clear


def test_equal_differences_have_an_interval_without_width() -> None:
    margin = paired_margin(np.full(8, 0.5))
    assert (margin.low, margin.high) == (0.5, 0.5) and margin.clear
    assert not paired_margin(np.zeros(8)).clear


def test_tasks_without_the_metric_do_not_count() -> None:
    assert paired_margin(np.array([math.nan, 0.5, math.nan, 0.25])).tasks == 2
    one, none = paired_margin(np.array([0.5])), paired_margin(np.array([math.nan]))
    assert one.ahead == 0.5 and math.isnan(one.low) and not one.clear
    assert math.isnan(none.ahead) and none.tasks == 0 and not none.clear
