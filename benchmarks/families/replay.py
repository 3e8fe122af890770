"""Comparisons by replay: surrogates by programs to near a pool's best, planners by the network's latency."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import mean, median
from typing import Any

from foretune.inference.search.config import StopConfig

from ..common import geometric_mean
from ..tuning_curves.beside import latency_at
from .pools import NetworkPool, Replayed, replayed

NEVER = StopConfig(expected_improvement=1e-9, patience=10**6)
"""Stop rule that measures every proposal, in the order of the surrogate."""

WITHIN = {"97 %": 0.97, "99 %": 0.99}
"""Shares of the speed of a pool's best program."""

SURROGATE: Mapping[str, Any] = {
    **{"planner": "round_robin", "rounds": 2, "top_k": 32, "finalists": 0, "random_share": 0.0, "stop": NEVER}
}
"""Sixteen programs of each task in turn, then the rest of the pool."""

SURROGATES: Mapping[str, Mapping[str, Any]] = {
    "one a task": {"share_surrogate": False},
    "core_operator": {"share_surrogate": True, "families": "core_operator"},
    "loop_nest": {"share_surrogate": True, "families": "loop_nest"},
    "one for all": {"share_surrogate": True, "families": "one"},
}

BUDGET = {"rounds": 4, "top_k": 16, "finalists": 0, "random_share": 0.0}
"""Sixteen programs per task on average; a planner distributes them freely."""

PLANNERS: Mapping[str, Mapping[str, Any]] = {
    "round_robin": {"planner": "round_robin"},
    "shares": {"planner": "shares"},
    "gradient": {"planner": "gradient"},
    "foresee": {"planner": "foresee"},
    "headroom": {"planner": "headroom"},
    "foresee, shared": {"planner": "foresee", "share_surrogate": True},
    "headroom, shared": {"planner": "headroom", "share_surrogate": True},
}

PROPORTIONS = (0.1, 0.2, 0.3, 0.4, 0.5)
"""Values of p in foresee tuning."""


def programs_until(
    run: Replayed, network: NetworkPool, best_s: Mapping[str, float], share: float
) -> list[int]:
    """Programs of each task until one is within `share` of the best speed of the pool.

    A task without a program that ran is left out; a task that never reaches this speed counts with one
    program more than it measured.
    """
    counts = []
    for task, result in zip(network.tasks, run.results, strict=True):
        best = best_s[task.workload_hash]
        if math.isinf(best):
            continue
        measured = result.measured_latencies_s
        near = (number for number, s in enumerate(measured, 1) if s <= best / share)
        counts.append(next(near, len(measured) + 1))
    return counts


def surrogate_unit(network: NetworkPool, seed: int, name: str) -> dict[str, Any]:
    """Programs of each task until near its best, with one kind of surrogate."""
    rated = network.shown(seed)
    run = replayed(network, rated, {**SURROGATE, **SURROGATES[name], "seed": seed})
    best_s = network.best_s(rated)
    return {label: programs_until(run, network, best_s, share) for label, share in WITHIN.items()}


def planner_unit(network: NetworkPool, seed: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Latency of the network over programs and seconds, compared with the best of the pool."""
    rated = network.shown(seed)
    run = replayed(network, rated, {**BUDGET, **settings, "seed": seed})
    best = network.best_s(rated)
    best_s = sum(task.weight * best[task.workload_hash] for task in network.tasks)
    return {"best_s": best_s, "programs": run.programs, "seconds": run.seconds}


def surrogate_table(
    networks: Sequence[NetworkPool], seeds: Sequence[int], unit: Callable[[NetworkPool, int, str], Any]
) -> dict[str, Any]:
    """Means and medians of the programs by network, threshold and surrogate."""
    table: dict[str, Any] = {}
    for network in networks:
        units = {name: [unit(network, seed, name) for seed in seeds] for name in SURROGATES}
        table[network.name] = {
            label: {
                name: {
                    "mean": mean(mean(one[label]) for one in found),
                    "median": median(count for one in found for count in one[label]),
                }
                for name, found in units.items()
            }
            for label in WITHIN
        }
    return table


def spent_until(curve: Sequence[Sequence[float]], latency_s: float) -> float:
    """Programs or seconds until a latency is reached, or inf."""
    return next((at for at, reached in curve if reached <= latency_s * (1 + 1e-9)), math.inf)


def planner_row(runs: Sequence[Mapping[str, Any]], rivals: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Figures of a planner compared with a rival with the same seeds, geometric means over runs.

    `latency` is over the pool's best, at half of the rival's programs and at all of them. `programs` and
    `seconds` are the costs to reach the rival's last latency, over the rival's costs. A run that does not
    reach it counts with its total cost, and `reached` is the share of runs that do.
    """
    rows: dict[str, list[float]] = {name: [] for name in ("half", "full", "programs", "seconds", "reached")}
    for run, rival in zip(runs, rivals, strict=True):
        budget, last_s = rival["programs"][-1][0], rival["programs"][-1][1]
        rows["half"].append(latency_at(run["programs"], budget / 2) / run["best_s"])
        rows["full"].append(latency_at(run["programs"], budget) / run["best_s"])
        for name in ("programs", "seconds"):
            spent = spent_until(run[name], last_s)
            rows[name].append(min(spent, run[name][-1][0]) / spent_until(rival[name], last_s))
        rows["reached"].append(float(spent_until(run["programs"], last_s) < math.inf))
    means = {name: geometric_mean(values) for name, values in rows.items() if name != "reached"}
    return {**means, "reached": mean(rows["reached"])}
