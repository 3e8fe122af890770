"""Rows of networks that several searches tuned in turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..common import Spread, geometric_spread
from .reading import times, times_spread

CONTEST_HEADS = ["machine", "network", "search", "runs", "programs", "search takes", "latency"]
"""Heads of a table whose rows are a machine, a network and the cells of `contest_rows`."""


def contest_rows(runs: Sequence[Mapping[str, Any]], base: str) -> Iterator[list[str]]:
    """Cells of each search but `base`: its name, runs, and programs, seconds and latency over those of base.

    `runs` are of `benchmarks.networks.contest`.
    """
    for search in dict.fromkeys(name for run in runs for name in run["side_by_side_s"]):
        if search == base:
            continue
        of_search = [run for run in runs if search in run]
        programs, seconds, latency = contest_ratios(of_search, search, base)
        cells = [times(programs.middle), times(seconds.middle), times_spread(latency)]
        yield [search, str(len(of_search)), *cells]


def contest_ratios(
    runs: Sequence[Mapping[str, Any]], search: str, base: str
) -> tuple[Spread, Spread, Spread]:
    """Programs, seconds and latency of a search over those of `base`, of runs that have both."""
    programs = geometric_spread([run[search]["measured"] / run[base]["measured"] for run in runs])
    return programs, seconds_over(runs, search, base), latency_over(runs, search, base)


NEAR = 1.05
"""Ratio to the last latency of a search from which on it counts as near its end."""


def seconds_to(curve: Sequence[Sequence[float]], goal_s: float) -> float | None:
    """Seconds until a curve of (seconds, latency in seconds) is at a latency; None where it never is."""
    return next((at_s for at_s, latency_s in curve if latency_s <= goal_s), None)


def seconds_over(runs: Sequence[Mapping[str, Any]], search: str, base: str) -> Spread:
    """Time of search and measurement over that of `base`."""
    return geometric_spread([run[search]["search_s"] / run[base]["search_s"] for run in runs])


def latency_over(runs: Sequence[Mapping[str, Any]], search: str, base: str) -> Spread:
    """Latency of the tuned network over that of `base`, timed side by side."""
    timed = [run["side_by_side_s"] for run in runs]
    return geometric_spread([each[search] / each[base] for each in timed])
