"""Surrogates of tasks: one each, or one that several share, each with a level of its own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from foretune.inference.search.candidate import Candidate
from foretune.inference.surrogate.shared import Surrogates, own_surrogate
from support.search_loop import proposal


def at(knob, score=0.5):
    return proposal(score, float(knob), 0.0)


def corrected(surrogate, *knobs):
    return surrogate.corrected(np.array([[knob] for knob in knobs], np.float64), np.full(len(knobs), 0.5))


def test_tasks_do_not_share_unless_they_are_told_to():
    surrogates = Surrogates()
    one, other = surrogates.of("one"), surrogates.of("other")
    one.learn([at(0), at(10)], [1e-3, 4e-3])
    assert one.is_fitted and one.is_informed
    assert not other.is_fitted and not other.is_informed
    np.testing.assert_array_equal(corrected(other, 0, 10), [0.5, 0.5])


def test_candidates_without_an_embedding_teach_nothing():
    surrogate = own_surrogate()
    surrogate.learn([Candidate("a template", 0.0)], [1e-3])
    left = [Candidate(str(score), score, np.array([score, 0.0], np.float32)) for score in (0.2, 0.9, 0.5)]
    rows, gain = surrogate.best_batch(left, 1)
    assert (rows.tolist(), gain) == ([1], 1.0)  # the best prediction; nothing tells how much it saves
    surrogate.learn([left[1]], [1e-3])
    assert surrogate.best_batch([left[0], left[2]], 1)[1] < 0.5


def test_a_group_shares_errors_and_each_task_has_its_level():
    """The second task is a hundred times slower, and is misjudged alike: fast at 0, slow at 10."""
    surrogates = Surrogates()
    one, other = surrogates.of("one", "family"), surrogates.of("other", "family")
    one.learn([at(0), at(10)], [1e-3, 4e-3])
    assert other.is_informed and other.is_primed and not other.is_fitted
    assert not one.is_primed
    fast, slow = corrected(other, 0, 10)
    assert fast > 1.5 * slow
    # Before any of its programs ran, its first batch is chosen by what the other task has shown.
    assert other.first_batch([at(10.1), at(0.1)], 1).tolist() == [1]
    other.learn([at(10)], [0.4])
    rows, gain = other.best_batch([at(10.1), at(0.1)], 1)
    assert rows.tolist() == [1]
    assert 0.3 < gain < math.log(4.5)  # of its own 0.4 s, not of the first task's milliseconds
    one_rows, one_gain = one.best_batch([at(10.1), at(0.1)], 1)
    assert one_rows.tolist() == [1] and one_gain < 0.2  # it has what is fast


def test_a_group_of_one_is_a_surrogate_of_its_own():
    measured, latencies_s = [at(0, 0.9), at(3, 0.4), at(7, 0.2)], [1e-3, 2e-3, math.inf]
    alone, grouped = own_surrogate(), Surrogates().of("task", "family")
    left = [at(1, 0.8), at(4, 0.7), at(9, 0.1)]
    for surrogate in (alone, grouped):
        surrogate.learn(measured, latencies_s)
    for surrogate in (alone, grouped):
        rows, gain = surrogate.best_batch(left, 2)
        expected_rows, expected_gain = alone.best_batch(left, 2)
        assert (rows.tolist(), gain) == (expected_rows.tolist(), pytest.approx(expected_gain))


def test_a_candidate_that_is_measured_again_is_replaced():
    surrogate = own_surrogate()
    surrogate.learn([at(0), at(10)], [1e-3, 4e-3])
    surrogate.learn([at(0)], [16e-3])
    fast, slow = corrected(surrogate, 10, 0)
    assert fast > 2 * slow


def test_failures_alone_inform_of_nothing():
    surrogate = own_surrogate()
    surrogate.learn([at(0)], [math.inf])
    assert not surrogate.is_fitted and not surrogate.is_informed


def test_a_task_that_fails_in_all_its_programs_tells_its_family_nothing():
    surrogates = Surrogates()
    failing, other = surrogates.of("failing", "family"), surrogates.of("other", "family")
    failing.learn([at(0), at(10)], [math.inf, math.inf])
    assert not other.is_primed and not other.is_informed
    other.learn([at(0), at(10)], [1e-3, 4e-3])
    alone = own_surrogate()
    alone.learn([at(0), at(10)], [1e-3, 4e-3])
    np.testing.assert_array_equal(corrected(other, 1, 9), corrected(alone, 1, 9))
    # It learns from the others itself.
    assert failing.is_primed and not failing.is_fitted
    assert failing.first_batch([at(9.9), at(0.1)], 1).tolist() == [1]


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
def test_levels_of_tasks_do_not_matter_to_what_they_share(factor):
    """Tasks of one family may differ by 1,000 times in latency."""
    surrogates = Surrogates()
    one, other = surrogates.of("one", "family"), surrogates.of("other", "family")
    one.learn([at(0), at(5), at(10)], [1e-3 * factor, 2e-3 * factor, 4e-3 * factor])
    other.learn([at(2), at(9)], [1e-3, 3e-3])
    rows, gain = other.best_batch([at(0.1), at(7), at(9.9)], 1)
    assert rows.tolist() == [0]
    reference = Surrogates()
    reference.of("one", "family").learn([at(0), at(5), at(10)], [1e-3, 2e-3, 4e-3])
    same = reference.of("other", "family")
    same.learn([at(2), at(9)], [1e-3, 3e-3])
    assert gain == pytest.approx(same.best_batch([at(0.1), at(7), at(9.9)], 1)[1], rel=1e-6)


def test_tasks_of_a_family_may_have_embeddings_of_other_widths():
    surrogates = Surrogates()
    wide, narrow = surrogates.of("wide", "family"), surrogates.of("narrow", "family")
    wide.learn([proposal(0.5, 1.0, 0.0)], [1e-3])
    other = Candidate("t", 0.5, np.zeros(3, np.float32))
    assert narrow.first_batch([other], 1).tolist() == [0]
    np.testing.assert_array_equal(narrow.corrected(np.zeros((1, 3)), np.array([0.5])), [0.5])
    narrow.learn([other], [2e-3])
    assert narrow.best_batch([other], 1)[0].tolist() == [0]
