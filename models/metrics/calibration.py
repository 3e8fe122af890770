"""Calibration of predicted standard deviations against the errors of the predictions.

With predictions m_i, standard deviations s_i > 0 and observations y_i on the scale of the training target,
and z_i = (y_i - m_i) / s_i, which is standard normal if the model is calibrated:

- coverage at q      share of |z_i| below the normal's central quantile of q; q for a calibrated model
- calibration error  mean over p = 0.05, 0.10, ..., 0.95 of |share of z_i below the normal's p-quantile - p|
                     (Kuleshov, Fenner and Ermon, "Accurate Uncertainties for Deep Learning Using
                     Calibrated Regression", ICML 2018, with absolute in place of squared differences)
- ENCE               rows sorted by s_i are cut into bins of equal counts; mean over bins of
                     |root mean s^2 - root mean (y - m)^2| / root mean s^2 (Levi et al., "Evaluating and
                     Calibrating Uncertainty Prediction in Regression Tasks", 2022)
- NLL                mean of ln(s_i sqrt(2 pi)) + z_i^2 / 2
- sharpness          root mean s^2; of two calibrated models the sharper one is more informative
- error Spearman     rank correlation of s_i and |y_i - m_i|: do uncertain rows have large errors?

A model that is calibrated on average may be miscalibrated on single tasks. Errors within a task are
correlated, so the bins of a few tasks vary more than their counts suggest.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import norm, spearmanr

from ...wording import decimal

FloatArray = NDArray[np.floating[Any]]
LEVELS = np.arange(1, 20) / 20
BINS = 10


@dataclass(frozen=True)
class Calibration:
    """Metrics of the module's docstring over n rows, named as in metrics.json."""

    coverage_50: float
    coverage_80: float
    coverage_90: float
    coverage_95: float
    calibration_error: float
    ence: float
    nll: float
    sharpness: float
    error_spearman: float

    def __str__(self) -> str:
        return (
            f"90 % intervals hold {decimal(100 * self.coverage_90, 0)} %  calibration error "
            f"{decimal(self.calibration_error)}  ENCE {decimal(self.ence)}"
        )

    def summary(self) -> dict[str, float]:
        """Metrics by name."""
        return asdict(self)


def calibrate(mean: FloatArray, std: FloatArray, observed: FloatArray) -> Calibration:
    """Every metric of n >= 1 rows; raises ValueError if the lengths differ or a std is not above 0."""
    mean, std, observed = (np.asarray(values, np.float64) for values in (mean, std, observed))
    if not len(mean) == len(std) == len(observed) or len(mean) == 0:
        raise ValueError(
            f"{len(mean)} means, {len(std)} deviations and {len(observed)} observations: give one of each "
            "for every row"
        )
    if not (std > 0).all():
        raise ValueError(f"the least standard deviation is {std.min()}: all must be above 0")
    error = observed - mean
    z = error / std
    coverage = {
        f"coverage_{q}": float(np.mean(np.abs(z) <= norm.ppf(0.5 + q / 200))) for q in (50, 80, 90, 95)
    }
    below = np.mean(z[None, :] <= norm.ppf(LEVELS)[:, None], axis=1)
    varies = np.ptp(std) > 0 and np.ptp(np.abs(error)) > 0
    return Calibration(
        **coverage,
        calibration_error=float(np.mean(np.abs(below - LEVELS))),
        ence=ence(std, error),
        nll=float(np.mean(np.log(std * np.sqrt(2 * np.pi)) + z**2 / 2)),
        sharpness=_root_mean_square(std),
        error_spearman=float(spearmanr(std, np.abs(error)).statistic) if varies else float("nan"),
    )


def ence(std: FloatArray, error: FloatArray, bins: int = BINS) -> float:
    """Expected normalised calibration error of n rows in at most `bins` bins."""
    parts = np.array_split(np.argsort(std, kind="stable"), min(bins, len(std)))
    spread = np.array([_root_mean_square(std[part]) for part in parts])
    seen = np.array([_root_mean_square(error[part]) for part in parts])
    return float(np.mean(np.abs(spread - seen) / spread))


def fit_correction(mean: FloatArray, std: FloatArray, observed: FloatArray) -> tuple[float, float]:
    """Maximum-likelihood factor a and floor b of the corrected deviations sqrt(a^2 std^2 + b^2).

    They are fitted on validation tasks. The factor corrects overconfidence on unseen tasks, like the
    temperature of Levi et al. The floor covers errors that all members of an ensemble share; without it a few
    rows with almost no spread would dominate the factor. Returns (1, 0) without errors to fit.
    """
    error = np.asarray(observed, np.float64) - mean
    variance = np.square(np.asarray(std, np.float64))
    if len(error) == 0 or not np.isfinite(error).all() or not error.any():
        return 1.0, 0.0
    unit = np.mean(error**2)

    def loss(logs: NDArray[np.float64]) -> float:  # logs of a^2 and of b^2 in mean squared errors
        corrected = np.exp(logs[0]) * variance + np.exp(logs[1]) * unit
        return float(np.mean(np.log(corrected) + error**2 / corrected))

    starts = [(0.0, 0.0), (float(np.log(np.mean(error**2 / variance))), -8.0)]
    fits = [minimize(loss, start, method="L-BFGS-B", bounds=[(-30, 30), (-12, 2)]) for start in starts]
    factor, floor = min(fits, key=lambda fit: fit.fun).x
    return float(np.exp(factor / 2)), float(np.sqrt(np.exp(floor) * unit))


def _root_mean_square(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
