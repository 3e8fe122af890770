"""Ratios of the rows: over the best rival, over padded buckets, and the dynamic library over fixed ones."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from ..common import geometric_mean
from .engines import BUCKETS, FIXED, FORETUNE, ORACLES, RIVAL_ENGINES

Row = Mapping[str, Any]

Facts = Mapping[str, Any]
"""Facts about a network and its libraries, see `contest.facts_of`."""


def claimed(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Size -> engine -> latency in seconds, of one network; failed and disturbed rows are left out."""
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        if row["latency_s"] is not None and not row["error"] and not row["disturbed"]:
            found[row["size"]][row["engine"]] = row["latency_s"]
    return dict(found)


def ratios(rows: Sequence[Row], engines: Sequence[str]) -> dict[str, float]:
    """Size -> latency of the fastest of `engines` over the dynamic library's; above 1 is a gain."""
    found = {}
    for size, known in claimed(rows).items():
        others = [known[engine] for engine in engines if engine in known]
        if FORETUNE in known and others:
            found[size] = min(others) / known[FORETUNE]
    return found


def regrets(rows: Sequence[Row], oracles: Sequence[str] = ORACLES) -> dict[str, float]:
    """Size -> extra time of the dynamic library, as a share of the fastest library of that size alone."""
    return {size: 1 / ratio - 1 for size, ratio in ratios(rows, oracles).items()}


def over_fixed(rows: Sequence[Row], facts: Facts) -> dict[str, float | None]:
    """Costs of the dynamic library of one network over those of a fixed one; None if they are not known.

    `ready_over_fixed` is the time to build it over the median time to build a library of one size. Results
    without times of single libraries have the seconds of all together, which count in equal shares, and with
    the first run. `peak_over_fixed` is the largest resident memory at the largest sizes, over the memory with
    a library of these sizes.
    """
    seconds = facts.get("library_s") or {engine: _equal_shares(rows, engine) for engine in (FORETUNE, FIXED)}
    peaks = facts.get("largest_peak_mb") or {}
    return {
        "ready_over_fixed": _over(*(_median(seconds.get(engine)) for engine in (FORETUNE, FIXED))),
        "peak_over_fixed": _over(peaks.get(FORETUNE), peaks.get(FIXED)),
    }


def _equal_shares(rows: Sequence[Row], engine: str) -> list[float]:
    """Seconds of each library of an engine: one for all sizes, or one for each."""
    found = [row["ready_s"] for row in rows if row["engine"] == engine and row["size"] and row["ready_s"]]
    return found[:1] if engine == FORETUNE else [one / len(found) for one in found]


def network_summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Figures of one network; None if no size has both engines."""
    rivals, buckets = ratios(rows, RIVAL_ENGINES), ratios(rows, [BUCKETS])
    return {
        "sizes": len({row["size"] for row in rows if row["size"]}),
        "disturbed": sum(row["disturbed"] for row in rows),
        "over_best_rival": _mean(rivals),
        "least_over_best_rival": min(rivals.values(), default=None),
        "over_buckets": _mean(buckets),
        "least_over_buckets": min(buckets.values(), default=None),
        **_regret(regrets(rows)),
        **{f"{oracle}_regret": _regret(regrets(rows, [oracle]))["mean_regret"] for oracle in ORACLES},
    }


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Figures of all networks: geometric means over networks, and the regret over all their sizes."""
    by_network: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_network[row["network"]].append(row)
    networks = [network_summary(own) for own in by_network.values()]
    known = [one for one in networks if one["sizes"]]
    regret = [value for own in by_network.values() for value in regrets(own).values()]
    return {
        "networks": len(known),
        "without_library": len(networks) - len(known),
        "over_best_rival": _mean_of(known, "over_best_rival"),
        "least_over_best_rival": _least_of(known, "least_over_best_rival"),
        "over_buckets": _mean_of(known, "over_buckets"),
        "mean_regret": statistics.fmean(regret) if regret else None,
        "worst_regret": max(regret, default=None),
        "oracles": [one for one in ORACLES if any(row["engine"] == one for row in rows)],
    }


def _over(value: float | None, other: float | None) -> float | None:
    return value / other if value and other else None


def _median(values: Sequence[float] | None) -> float | None:
    return statistics.median(values) if values else None


def _mean(values: Mapping[str, float]) -> float | None:
    return geometric_mean(list(values.values())) if values else None


def _regret(values: Mapping[str, float]) -> dict[str, float | None]:
    return {
        "mean_regret": statistics.fmean(values.values()) if values else None,
        "worst_regret": max(values.values(), default=None),
    }


def _mean_of(networks: Sequence[Mapping[str, Any]], key: str) -> float | None:
    values = [one[key] for one in networks if one[key] is not None]
    return geometric_mean(values) if values else None


def _least_of(networks: Sequence[Mapping[str, Any]], key: str) -> float | None:
    return min((one[key] for one in networks if one[key] is not None), default=None)
