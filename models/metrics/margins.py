"""Difference of two models on the same test tasks, and whether these suffice to tell it from chance."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import bootstrap

LEAST_TASKS = 6
"""Tasks below which no difference is clear. If two models are equal, one of them is better on all of five
tasks in every 16th comparison, and on all of six in every 32nd, which is less than 5 %."""


@dataclass(frozen=True)
class Margin:
    """Margin of one model over another in the mean of a metric over test tasks.

    The interval is the 95 % interval of the bias-corrected bootstrap over the tasks. It covers another
    sample of tasks, but not another training.
    """

    ahead: float
    """Positive if the model is better; NaN without a task."""
    low: float
    high: float
    tasks: int

    @property
    def clear(self) -> bool:
        """Whether the interval lies on one side of 0, and there are at least LEAST_TASKS tasks."""
        return self.tasks >= LEAST_TASKS and (self.low > 0 or self.high < 0)


def paired_margin(difference: NDArray[np.float64]) -> Margin:
    """Margin from the differences by task, float64 [tasks]; NaN marks a task without the metric."""
    known = difference[~np.isnan(difference)]
    if len(known) < 2:
        return Margin(float(known.mean()) if len(known) else math.nan, math.nan, math.nan, len(known))
    ahead = float(known.mean())
    if np.ptp(known) == 0:
        return Margin(ahead, ahead, ahead, len(known))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on resamples without spread
        interval = bootstrap((known,), np.mean, n_resamples=2000, rng=np.random.default_rng(0))
    low, high = interval.confidence_interval
    return Margin(ahead, float(low), float(high), len(known))
