"""Tables of searches with and without reuse between tasks."""

from __future__ import annotations

from ..common import geometric_spread
from .networks import NETWORKS, in_order
from .reading import Result, Results, markdown, not_measured, times, times_spread

COMMAND = "python -m benchmarks.reuse --part "


def networks(results: Results) -> str:
    """Whole networks: a row a machine, network and search, as ratios to the search without reuse."""
    found = results.of("reuse_networks")
    if not found:
        return not_measured(f"{COMMAND}networks")
    rows = [row for result in found for row in _network_rows(result)]
    heads = ["machine", "network", "search", "runs", "programs", "search takes", "latency"]
    return markdown(
        heads,
        rows,
        "Ratios to the search without reuse, geometric means with the least and the most of runs from an "
        "empty database. The networks of a run are timed side by side. `fewer` measures as few programs as "
        "`auto` and takes none over.",
    )


def _network_rows(result: Result) -> list[list[str]]:
    rows = []
    for name, runs in in_order(result):
        for search in ("auto", "fewer"):
            ratios = [
                [run[search][what] / run["off"][what] for run in runs] for what in ("measured", "search_s")
            ]
            latency = [run["side_by_side_s"][search] / run["side_by_side_s"]["off"] for run in runs]
            programs, seconds, speed = (geometric_spread(each) for each in (*ratios, latency))
            cells = [times(programs.middle), times(seconds.middle), times_spread(speed)]
            rows.append([result.machine, NETWORKS.get(name, name), search, str(len(runs)), *cells])
    return rows
