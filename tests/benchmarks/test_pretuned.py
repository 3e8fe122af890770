"""The benchmark of pretuned starts: what it averages."""

from __future__ import annotations

import pytest

from benchmarks.pretuned.__main__ import means


def row(loose, strict, random=0.2, best=0.8):
    return {"starts_0.6": loose, "starts_0.9": strict, "random": random, "measured_best": best}


def test_means_are_over_the_tasks_with_a_start_and_the_controls_over_the_same():
    rows = [row(0.6, None, random=0.1), row(0.8, 0.7, random=0.3), row(None, None), row(0.5, 0.5, best=None)]
    found = means(rows)
    assert found["starts_0.6"] == pytest.approx(
        {"share_of_tasks": 0.5, "tasks": 2, "starts_0.6": 0.7, "random": 0.2, "measured_best": 0.8}
    )
    assert found["starts_0.9"] == pytest.approx(
        {"share_of_tasks": 0.25, "tasks": 1, "starts_0.9": 0.7, "random": 0.3, "measured_best": 0.8}
    )


def test_no_task_with_a_start_has_no_means():
    assert means([row(None, None)])["starts_0.6"] == {"share_of_tasks": 0.0, "tasks": 0}
