"""Rows of families: accuracy by grouping, shared surrogates and planners by replay, stock's search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..families import TRIALS_A_TASK
from ..tuning_curves.beside import NEAR, latency_at, seconds_to
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
                    about = {
                        "network": network,
                        "scheduler": name,
                        "trials": run[name].get("trials", TRIALS_A_TASK),
                    }
                    yield {**about, **over_rival(run[name], run[STOCK_RIVAL])}


def over_rival(run: Mapping[str, Any], rival: Mapping[str, Any]) -> dict[str, Any]:
    """A run of stock's search over a rival that measured as many programs.

    `half` and `last` are the latencies at half of the programs and at all of them, `same_s` at the seconds of
    the run that ends first. `near` and `end` are the seconds to the rival's last latency, or near it; a run
    that does not get there counts with all its seconds. Older runs lack the programs.
    """
    curve, other = run["curve"], rival["curve"]
    end_s = min(curve[-1][0], other[-1][0])
    found: dict[str, Any] = {"last": curve[-1][1] / other[-1][1], "last_s": curve[-1][0] / other[-1][0]}
    found["same_s"] = latency_at(curve, end_s) / latency_at(other, end_s)
    if "programs" in run and "programs" in rival:
        both = [
            [(n, s) for n, (_, s) in zip(one["programs"], one["curve"], strict=True)] for one in (run, rival)
        ]
        half = min(points[-1][0] for points in both) / 2
        found["half"] = latency_at(both[0], half) / latency_at(both[1], half)
    for name, slack in (("near", NEAR), ("end", 1.0)):
        own, theirs = (seconds_to(one, slack * other[-1][1]) for one in (curve, other))
        found[name] = (curve[-1][0] if own is None else own) / theirs
        found[f"{name}_reached"] = int(own is not None)
    return found


def campaign(result: Result) -> Iterator[dict[str, Any]]:
    """Runs of FamilySeer's Algorithm 1 in stock MetaSchedule on a GPU."""
    for network, runs in result.values["networks"].items():
        for run in runs:
            both = [run.get(name) or {} for name in ("stock, foresee", STOCK_RIVAL)]
            if all(one.get("curve") for one in both):
                yield {"network": network, "trials": result.values["trials"], **over_rival(*both)}
