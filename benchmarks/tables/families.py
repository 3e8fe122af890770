"""Rows of families: accuracy by grouping, shared surrogates and planners by replay, stock's search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..tuning_curves.beside import NEAR, seconds_to
from .declare import names
from .reading import Result

FIRST_POOL = {"dataset": "networks", "programs": 40}
"""Pool of results that do not name one."""

STOCK_RIVAL = "stock, gradient"


def _dataset(part: Mapping[str, Any]) -> str:
    return f"`data/{part.get('pool', FIRST_POOL)['dataset']}`"


def accuracy(result: Result) -> Iterator[dict[str, Any]]:
    """Correctly ordered pairs by grouping of the tasks."""
    if part := result.values.get("accuracy"):
        for name in names()["grouping"]:
            models, pairs = (part[what][name] for what in ("families", "accuracy"))
            yield {"records": _dataset(part), "grouping": name, "models": models, "pairs": pairs}


def surrogates(result: Result) -> Iterator[dict[str, Any]]:
    """Programs until near a pool's best, by network and surrogate."""
    part = result.values.get("replay", {})
    for network, thresholds in part.get("surrogates", {}).items():
        for threshold, found in thresholds.items():
            for surrogate, one in found.items():
                ratio = one["mean"] / found["one a task"]["mean"]
                about = {"records": _dataset(part), "network": network, "to": threshold}
                yield {**one, **about, "surrogate": surrogate, "ratio": ratio}


def planners(result: Result) -> Iterator[dict[str, Any]]:
    """Planners by replay, network by network."""
    part = result.values.get("replay", {})
    for network, by_name in part.get("planners", {}).items():
        for name, one in by_name.items():
            yield {"records": _dataset(part), "network": network, "planner": name, **one}


def stock(result: Result) -> Iterator[dict[str, Any]]:
    """Schedulers of stock's search, run by run, compared with its gradient scheduler."""
    for network, part in result.values.get("live", {}).items():
        for name in names()["scheduler"]:
            for run in part.get("stock", ()):
                if name in run and run[name]["left_out"] == run[STOCK_RIVAL]["left_out"]:
                    curves = (run[one]["curve"] for one in (name, STOCK_RIVAL))
                    yield {"network": network, "scheduler": name, **over_rival(*curves)}


def over_rival(curve: Sequence[Any], rival: Sequence[Any]) -> dict[str, Any]:
    """Last latency and seconds to a rival's last latency over the rival's, and whether the run reaches it."""
    found: dict[str, Any] = {"last": curve[-1][1] / rival[-1][1], "last_s": curve[-1][0] / rival[-1][0]}
    for name, slack in (("near", NEAR), ("end", 1.0)):
        own, theirs = (seconds_to(one, slack * rival[-1][1]) for one in (curve, rival))
        found[name] = (curve[-1][0] if own is None else own) / theirs
        found[f"{name}_reached"] = int(own is not None)
    return found


def campaign(result: Result) -> Iterator[dict[str, Any]]:
    """Runs of FamilySeer's Algorithm 1 in stock MetaSchedule on a GPU."""
    for network, runs in result.values["networks"].items():
        for run in runs:
            curves = [run.get(name, {}).get("curve") for name in ("stock, foresee", STOCK_RIVAL)]
            if all(curves):
                yield {"network": network, "trials": result.values["trials"], **over_rival(*curves)}
