"""Ratios of the rows: over the best rival, over padded buckets, and the regret of the dynamic library."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from ..common import geometric_mean
from .engines import BUCKETS, FORETUNE, ORACLES, RIVAL_ENGINES

Row = Mapping[str, Any]


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
