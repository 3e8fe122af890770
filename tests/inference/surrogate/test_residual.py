"""Surrogate over residuals: posterior, acquisition, first batches."""

from __future__ import annotations

import math

import numpy as np
import pytest
from foretune.inference.surrogate.gaussian_process import NOISE
from foretune.inference.surrogate.residual import (
    FIRST_SHORTLIST,
    SHORTLIST,
    SPREAD_BEFORE,
    SPREAD_WEIGHT,
    TRUST,
    Posterior,
    ResidualModel,
    first_batch,
)
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from support.search_loop import proposal


def knobs(*values):
    return np.array([[value] for value in values], dtype=np.float64)


def test_a_measured_candidate_is_known_up_to_the_noise():
    model = ResidualModel.fit(knobs(0, 3, 5), np.array([1.0, 0.5, 0.2]), np.array([1e-3, 4e-3, 9e-3]))
    posterior = model.posterior(knobs(0, 3, 5), np.array([1.0, 0.5, 0.2]))
    np.testing.assert_allclose(posterior.mean, -np.log([1e-3, 4e-3, 9e-3]), atol=0.02)
    assert (posterior.deviation < 1.01 * NOISE).all()


@pytest.mark.parametrize("measured", [1, 2, 20])
def test_the_posterior_is_that_of_scikit_learn(measured):
    rng = np.random.default_rng(measured)
    embeddings, others = rng.normal(size=(measured, 5)), rng.normal(size=(30, 5))
    scores, other_scores = rng.uniform(0.01, 1, measured), rng.uniform(0.01, 1, 30)
    model = ResidualModel.fit(embeddings, scores, rng.uniform(1e-3, 4e-3, measured))
    found = model.posterior(others, other_scores)

    length, variance = model._process._kernel.length, model._process._kernel.spread**2
    alike, itself = Matern(length, nu=1.5), Matern(0.01 * length, nu=0.5)
    kernel = ConstantKernel(0.9 * variance) * alike + ConstantKernel(0.1 * variance) * itself
    residual = model.log_speeds - TRUST * np.log(scores)
    reference = GaussianProcessRegressor(kernel, alpha=NOISE**2, optimizer=None)
    reference.fit(embeddings, residual - residual.mean())
    mean, covariance = reference.predict(others, return_cov=True)
    np.testing.assert_allclose(found.mean, mean + residual.mean() + TRUST * np.log(other_scores), atol=1e-9)
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-9)
    mean, deviation = reference.predict(others, return_std=True)
    np.testing.assert_allclose(model._process.marginals(others), (mean, deviation), atol=1e-7)
    np.testing.assert_allclose(model._process.mean(others), mean, atol=1e-9)


def test_far_from_what_was_measured_the_frozen_model_decides():
    """A quarter of a score's logarithm is believed: 1 and 1/16 that measured 1 and 2 ms are as predicted, and
    1/256 stands for 4 ms.
    """
    assert TRUST == 0.25
    model = ResidualModel.fit(knobs(0, 1), np.array([1.0, 1 / 16]), np.array([1e-3, 2e-3]))
    posterior = model.posterior(knobs(1000), np.array([1 / 256]))
    assert posterior.mean[0] == pytest.approx(-math.log(4e-3))
    # Two residuals of zero after four of the prior's spread.
    spread = SPREAD_BEFORE * math.sqrt(SPREAD_WEIGHT / (SPREAD_WEIGHT + 2))
    assert posterior.deviation[0] == pytest.approx(spread)


def test_neighbours_are_misjudged_alike():
    """Equal predictions turned out fast at 0 and slow at 10; their neighbours are corrected alike."""
    scores = np.full(4, 0.5)
    model = ResidualModel.fit(knobs(0, 0.5, 10, 10.5), scores, np.array([1e-3, 1e-3, 3e-3, 3e-3]))
    near_fast, near_slow = model.corrected(knobs(0.2, 10.2), np.array([0.5, 0.5]))
    assert near_fast > 0.5**TRUST > near_slow  # which is what they got without measurements
    assert 2.0 < near_fast / near_slow < 3.0  # shrunk towards the frozen model


def test_failures_teach_nothing():
    with_failure = ResidualModel.fit(
        knobs(0, 1, 2), np.array([1.0, 0.5, 0.9]), np.array([1e-3, 2e-3, np.inf])
    )
    without = ResidualModel.fit(knobs(0, 1), np.array([1.0, 0.5]), np.array([1e-3, 2e-3]))
    ask = knobs(3), np.array([0.7])
    np.testing.assert_allclose(with_failure.posterior(*ask).mean, without.posterior(*ask).mean)
    with pytest.raises(ValueError, match="no candidate ran"):
        ResidualModel.fit(knobs(0), np.array([1.0]), np.array([np.inf]))


def test_the_expected_improvement_is_jones_closed_form():
    """Best 1 ms (log-speed 6.908); one candidate expected 10 % faster with a deviation of 20 %."""
    best_s = 1e-3
    posterior = Posterior(np.array([0.1 - math.log(best_s)]), np.array([[0.04]]))
    rows, expected = posterior.best_batch(3, best_s)
    assert rows.tolist() == [0]
    assert expected == pytest.approx(0.1 * norm.cdf(0.5) + 0.2 * norm.pdf(0.5), rel=0.15)  # 0.1395


def test_a_batch_may_gain_more_than_its_best_unless_all_is_one():
    best_s, mean = 1e-3, np.full(4, -math.log(1e-3))
    _, apart = Posterior(mean, 0.04 * np.eye(4)).best_batch(4, best_s)
    _, alike = Posterior(mean, np.full((4, 4), 0.04)).best_batch(4, best_s)
    # The largest of four normals, or zero where none is above it, is expected at 1.05 deviations; of one
    # normal, what is above zero at 0.40.
    assert apart == pytest.approx(0.2 * 1.05, rel=0.1)
    assert alike == pytest.approx(0.2 * 0.40, rel=0.15)


def test_a_batch_takes_what_is_good_and_not_alike():
    """The second is nearly as good as the first but is misjudged as that is; the third is another kind."""
    covariance = np.array([[0.04, 0.04, 0.0], [0.04, 0.04, 0.0], [0.0, 0.0, 0.04]])
    posterior = Posterior(np.array([0.10, 0.09, 0.0]) - math.log(1e-3), covariance)
    assert posterior.best_batch(2, 1e-3)[0].tolist() == [0, 2]
    assert sorted(posterior.best_batch(5, 1e-3)[0].tolist()) == [0, 1, 2]  # each once


def test_a_batch_takes_what_gains_most_for_its_cost():
    """The first gains three times as much as the second, and costs five times as much."""
    posterior = Posterior(np.array([0.3, 0.1]) - math.log(1e-3), 1e-6 * np.eye(2))
    cost = np.array([1.0, 0.2])
    assert posterior.best_batch(1, 1e-3)[0].tolist() == [0]
    rows, expected = posterior.best_batch(1, 1e-3, cost)
    assert rows.tolist() == [1]
    assert expected == pytest.approx(0.1, rel=0.01)  # what it gains, whatever it costs
    assert posterior.best_batch(2, 1e-3, cost)[0].tolist() == [1, 0]


def test_what_each_candidate_costs_counts_among_many():
    """All alike but for their cost: of more than the shortlist holds, the cheapest come first."""
    model = ResidualModel.fit(knobs(0), np.array([0.5]), np.array([1e-3]))
    embeddings, scores = knobs(*range(1000, 1000 + 100 * (SHORTLIST + 50), 100)), np.full(SHORTLIST + 50, 0.5)
    cost = np.linspace(2.0, 1.0, SHORTLIST + 50)
    rows, _ = model.best_batch(embeddings, scores, 1, cost)
    assert rows[0] >= 50
    assert model.best_of([proposal(0.5, float(x), 1e-3) for x in embeddings.ravel()], 1, cost)[0] == rows


def test_what_comes_first_is_good_and_not_alike():
    """Before anything ran: of two kinds, the better predicted one and then, at its like, the other one."""
    kinds = [proposal(0.9, 0.1 * i, 0.0) for i in range(5)] + [proposal(0.7, 90.0, 0.0)]
    rows = first_batch(kinds, 2)
    assert rows[0] < 5
    assert rows[1] == 5
    assert sorted(first_batch(kinds, 9).tolist()) == list(range(6))
    # The second is hardly worse, and takes a third of the time.
    assert first_batch([proposal(0.9, 0.0, 0.0), proposal(0.8, 9.0, 0.0)], 1, np.array([3.0, 1.0])) == [1]


def test_of_many_only_the_best_predicted_come_first():
    """A candidate that lies alone, and is predicted worst of more than the shortlist, is not considered."""
    many = [proposal(0.49, 1e4, 0.0)] + [proposal(0.5, 1e-4 * i, 0.0) for i in range(FIRST_SHORTLIST)]
    assert 0 not in first_batch(many, 8)
    assert 0 in first_batch(many[:-1], 8)
