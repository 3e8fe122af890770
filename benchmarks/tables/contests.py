"""Rows of networks that several searches tuned in turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..common import geometric_spread
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
        ratios = [
            [run[search][what] / run[base][what] for run in of_search] for what in ("measured", "search_s")
        ]
        latency = [run["side_by_side_s"][search] / run["side_by_side_s"][base] for run in of_search]
        programs, seconds, speed = (geometric_spread(each) for each in (*ratios, latency))
        cells = [times(programs.middle), times(seconds.middle), times_spread(speed)]
        yield [search, str(len(of_search)), *cells]
