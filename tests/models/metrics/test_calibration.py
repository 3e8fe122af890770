"""Calibration of predicted deviations: values worked by hand, and normal errors, which are calibrated."""

import itertools
import math

import numpy as np
import pytest
from foretune.models.metrics.calibration import calibrate, ence, fit_correction
from hypothesis import given
from hypothesis import strategies as st

NORMAL = np.random.default_rng(0).standard_normal(20_000)


def test_normal_errors_are_calibrated_and_others_are_not():
    std = np.exp(np.random.default_rng(1).uniform(-2, 1, len(NORMAL)))
    good = calibrate(np.zeros(len(std)), std, std * NORMAL)
    assert [good.coverage_50, good.coverage_80, good.coverage_90, good.coverage_95] == pytest.approx(
        [0.5, 0.8, 0.9, 0.95], abs=0.015
    )
    assert good.calibration_error < 0.01 and good.ence < 0.05
    assert good.error_spearman > 0.4  # larger deviations go with larger errors
    sure = calibrate(np.zeros(len(std)), std / 3, std * NORMAL)
    assert sure.coverage_90 < 0.5 and sure.calibration_error > 0.1
    assert sure.ence == pytest.approx(2, abs=0.1)  # |s/3 - s| / (s/3)
    assert sure.nll > good.nll


def test_figures_by_hand():
    # z = 0, 1, 2, -3; within 0.674: one, within 1.282: two, within 1.645: two, within 1.960: two
    mean, std = np.array([1.0, 0.0, 0.0, 3.0]), np.array([1.0, 1.0, 1.0, 1.0])
    made = calibrate(mean, std, np.array([1.0, 1.0, 2.0, 0.0]))
    assert (made.coverage_50, made.coverage_80, made.coverage_90, made.coverage_95) == (0.25, 0.5, 0.5, 0.5)
    assert made.sharpness == 1
    assert made.nll == pytest.approx(0.5 * math.log(2 * math.pi) + (0 + 1 + 4 + 9) / 8)
    assert math.isnan(made.error_spearman)  # equal deviations have no order
    # Observed shares below the p-quantile: z = -3 is below all 19, 0 from p = 0.5 on (10 levels), 1 from 0.85
    # on (quantile 1.036; 3 levels), 2 never (0.95 has 1.645).
    levels = [round(0.05 * i, 2) for i in range(1, 20)]
    observed = [(1 + (p >= 0.5) + (p >= 0.85)) / 4 for p in levels]
    expected = sum(abs(o - p) for o, p in zip(observed, levels, strict=True)) / 19
    assert made.calibration_error == pytest.approx(expected)


def test_ence_by_hand():
    # two bins: deviations 1, 1 with errors 1, 1; deviations 2, 2 with errors 1, -1: |2 - 1| / 2
    std, error = np.array([2.0, 1.0, 1.0, 2.0]), np.array([1.0, 1.0, 1.0, -1.0])
    assert ence(std, error, bins=2) == pytest.approx((0 + 0.5) / 2)
    assert ence(std[:1], error[:1]) == pytest.approx(0.5)  # fewer rows than bins


def test_a_correction_finds_what_the_errors_were_made_with():
    std = np.exp(np.random.default_rng(1).uniform(-2, 1, len(NORMAL)))
    for factor, floor in ((3.0, 0.5), (0.5, 0.2), (2.0, 0.0)):
        observed = np.hypot(factor * std, floor) * NORMAL
        found = fit_correction(np.zeros(len(std)), std, observed)
        assert found == pytest.approx((factor, floor), rel=0.05, abs=0.03)
    # Rows on which the members agree have errors, too; the floor keeps them from inflating the factor.
    agreeing = np.where(np.arange(len(std)) % 10 == 0, 1e-5, std)
    corrected = fit_correction(np.zeros(len(std)), agreeing, np.hypot(agreeing, 0.1) * NORMAL)
    assert corrected == pytest.approx((1, 0.1), rel=0.1)


def test_equal_deviations_are_corrected_to_the_mean_error():
    factor, floor = fit_correction(np.zeros(2), np.ones(2), np.array([3.0, 4.0]))
    assert math.hypot(factor, floor) == pytest.approx(math.sqrt(25 / 2), rel=1e-3)
    none = np.zeros(0)
    assert fit_correction(none, none, none) == fit_correction(np.ones(2), np.ones(2), np.ones(2)) == (1, 0)


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(0.01, 5), st.floats(-5, 5)), min_size=1, max_size=30))
def test_figures_are_in_range_and_keep_to_units(rows):
    mean, std, observed = (np.array(column) for column in zip(*rows, strict=True))
    made = calibrate(mean, std, observed)
    shares = (made.coverage_50, made.coverage_80, made.coverage_90, made.coverage_95)
    assert all(0 <= low <= high <= 1 for low, high in itertools.pairwise(shares))
    assert 0 <= made.calibration_error <= 1 and made.ence >= 0
    scaled = calibrate(2 * mean, 2 * std, 2 * observed)
    assert scaled.ence == pytest.approx(made.ence) and scaled.sharpness == pytest.approx(2 * made.sharpness)


def test_what_cannot_be_calibrated_is_refused():
    one = np.ones(1)
    with pytest.raises(ValueError, match=r"deviation is 0\.0"):
        calibrate(one, 0 * one, one)
    with pytest.raises(ValueError, match="1 means, 2 deviations"):
        calibrate(one, np.ones(2), one)
    with pytest.raises(ValueError, match="give one of each for every row"):
        calibrate(one[:0], one[:0], one[:0])
