"""Foretune and stock MetaSchedule on one task: ratios of their times and latencies."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NEAR = 1.05
"""Ratio to a search's last latency within which the search counts as near its end."""

STOCK = ("stock", "stock_measured_by_foretune")
"""Runs of stock's search, in the order of preference: measured by its own runner, or by Foretune."""


@dataclass(frozen=True)
class Beside:
    """Medians of both tuners; ratios are above 1 if foretune is ahead."""

    trials: int
    seconds: float
    stock_s: float
    stock_near_s: float
    """Seconds until a program of stock's is within NEAR of its last one."""
    cold_s: float
    stock_cold_s: float
    warm: float | None
    """Ratio of latencies with warm caches."""

    @property
    def less_time(self) -> float:
        """Seconds of all of stock's trials over foretune's."""
        return self.stock_s / self.seconds

    @property
    def less_time_near(self) -> float:
        """Seconds until stock is within NEAR of its last program, over the seconds of foretune's whole
        search."""
        return self.stock_near_s / self.seconds

    @property
    def cold(self) -> float:
        """Ratio of latencies with cold caches."""
        return self.stock_cold_s / self.cold_s


def beside(row: Mapping[str, Any], tuner: str = "foretune") -> Beside:
    """Medians of the runs of a tuner and of stock on a task of a result."""
    runs, stock = row["runs"][tuner], row["runs"][stock_of(row["runs"])]
    warm = None
    if all(run["warm_s"] is not None for run in (*runs, *stock)):
        warm = _middle(stock, "warm_s") / _middle(runs, "warm_s")
    return Beside(
        trials=row["trials"],
        seconds=_middle(runs, "seconds"),
        stock_s=_middle(stock, "seconds"),
        stock_near_s=statistics.median(_near(run) for run in stock),
        cold_s=_middle(runs, "cold_s"),
        stock_cold_s=_middle(stock, "cold_s"),
        warm=warm,
    )


def stock_of(runs: Mapping[str, Any]) -> str:
    """Stock's runs, with which others are compared."""
    return next(name for name in STOCK if name in runs)


def seconds_to(curve: Sequence[Sequence[float]], goal_s: float) -> float | None:
    """Seconds until a curve of (seconds, latency in seconds) reaches a latency, or None."""
    return next((at_s for at_s, latency_s in curve if latency_s <= goal_s), None)


def latency_at(curve: Sequence[Sequence[float]], spent: float) -> float:
    """Latency of a curve of (seconds or programs, latency) after so many; the first one before it begins."""
    reached = [latency for at, latency in curve if at <= spent]
    return reached[-1] if reached else curve[0][1]


def _near(run: Mapping[str, Any]) -> float:
    """Seconds of a run until its curve is within NEAR of its last program."""
    near_s = None if run["cold_s"] is None else seconds_to(run["curve"], NEAR * run["cold_s"])
    return float(run["seconds"]) if near_s is None else near_s


def _middle(runs: Sequence[Mapping[str, Any]], key: str) -> float:
    return statistics.median(math.inf if run[key] is None else run[key] for run in runs)
