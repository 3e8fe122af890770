"""How alike candidates are: by what their loops do, or by their decisions where that cannot be read."""

from __future__ import annotations

import numpy as np
import pytest
from drafts_under_test import CPU
from foretune.dataset.drafting.read_traces import SketchReader
from foretune.dataset.operators import Dense, to_task
from foretune.dataset.program_sampling import RandomSampler
from foretune.dataset.task import Task
from foretune.dataset.tvm_compat import parse_target
from foretune.inference.likeness import PLACE_DIM, Likeness
from foretune.inference.residual import ResidualModel

TARGET = parse_target({"kind": "llvm", "num-cores": 1})
DENSE = to_task(Dense(rows=8, in_features=64, out_features=32))


def candidates_of(task: Task, count: int = 6) -> list:
    return [candidate for _, candidate in RandomSampler(task, TARGET, per_round=count, seed=0).propose()]


@pytest.fixture(scope="module")
def candidates() -> list:
    return candidates_of(DENSE)


def test_candidates_are_told_apart_by_their_loops_and_equal_ones_are_not(candidates):
    places = Likeness(DENSE.mod, CPU)([*candidates, candidates[0]])
    assert places.shape == (len(candidates) + 1, PLACE_DIM)
    np.testing.assert_array_equal(places[0], places[-1])
    assert len(np.unique(places, axis=0)) == len(candidates)


def test_a_place_does_not_depend_on_its_company(candidates):
    likeness = Likeness(DENSE.mod, CPU)
    together = likeness(candidates)
    apart = np.concatenate([likeness([candidate]) for candidate in candidates])
    np.testing.assert_array_equal(together, apart)


def test_where_the_device_is_not_known_it_is_the_decisions(candidates):
    places = Likeness(DENSE.mod, None)([*candidates, candidates[0]])
    assert places.shape[1] != PLACE_DIM
    np.testing.assert_array_equal(places[0], places[-1])
    assert len(np.unique(places, axis=0)) == len(candidates)


@pytest.fixture
def unreadable(monkeypatch) -> None:
    """No trace is of a sketch that drafting knows."""

    monkeypatch.setattr(SketchReader, "by_sketch", lambda reader, traces: iter(()))


@pytest.mark.usefixtures("unreadable")
def test_where_the_first_candidates_cannot_be_read_it_stays_with_decisions(candidates, monkeypatch):
    likeness, decisions = Likeness(DENSE.mod, CPU), Likeness(DENSE.mod, None)(candidates)
    np.testing.assert_array_equal(likeness(candidates), decisions)
    monkeypatch.undo()
    np.testing.assert_array_equal(likeness(candidates), decisions)


def test_none_of_them_decide_nothing(candidates, request):
    likeness = Likeness(DENSE.mod, CPU)
    assert len(likeness([])) == 0
    request.getfixturevalue("unreadable")
    assert likeness(candidates).shape[1] != PLACE_DIM


def test_what_cannot_be_read_later_keeps_the_width(candidates, request):
    likeness = Likeness(DENSE.mod, CPU)
    likeness(candidates)
    request.getfixturevalue("unreadable")
    assert likeness(candidates).shape == (len(candidates), PLACE_DIM)


def test_what_was_measured_tells_of_what_is_alike_and_little_of_what_is_not():
    places = np.array([[0.0], [1.0], [10.0]])
    model = ResidualModel.fit(places, np.ones(3), np.array([1e-3, 1e-3, 4e-3]))
    near, far = model.posterior(np.array([[0.1], [400.0]]), np.ones(2)).deviation
    assert near < 0.5 * far
