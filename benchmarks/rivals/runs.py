"""One network: tuned, timed against its rivals, with the share of the machine's peak that its tasks reach."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foretune.inference.deploy.rivals.registry import RIVALS, engine_class
from foretune.inference.run.result import TUNED

from ..checkouts import python_in, tune_command
from ..common import ROOT, read_json

LIMIT_S = 1800.0
"""Seconds after which a network is aborted."""

FORETUNE = "foretune"
"""Name of the tuned network among the rivals."""

RETRIES = 1
"""Number of further timings for a network with a disturbed contestant."""

LEAST_SHARE = 0.01
"""Share of the tasks' time below which a task is not listed."""


def measure(
    network: str,
    overrides: Sequence[str],
    *,
    rival_limit_s: float,
    rivals: Sequence[str] = tuple(RIVALS),
) -> dict[str, Any]:
    """Tunes a network from an empty database and times it with rivals; returns `of_report`.

    A disturbed timing is repeated, without another search. Raises SubprocessError.
    """
    with tempfile.TemporaryDirectory() as scratch:
        words = [
            f"network={network}",
            f"output={scratch}/report",
            f"database={scratch}/found",
            f"rivals=[{','.join(rivals)}]",
            f"rival_limit_s={rival_limit_s}",
            "untuned_limit_s=1e-9",
        ]
        command = [*tune_command(ROOT), *words, *overrides]
        reports = []
        for _ in range(1 + RETRIES):
            python_in(ROOT, command, cwd=Path(scratch), timeout_s=LIMIT_S)
            reports.append(read_json(Path(scratch) / "report" / "report.json"))
            if not any(one["disturbed"] for one in reports[-1]["contestants"]):
                break
    return of_report(network, reports[0], reports[-1])


def of_report(network: str, tuning: Mapping[str, Any], timing: Mapping[str, Any]) -> dict[str, Any]:
    """The result's part of two reports: the tuning run's, and the report with the timing that counts."""
    names = {engine_class(location).title: name for name, location in RIVALS.items()} | {TUNED: FORETUNE}
    ready_s = {one["name"]: one["ready_s"] for one in tuning["contestants"]}
    version = f"foretune {timing['versions']['foretune']}"
    rows = [
        {
            "network": network,
            "dtype": one["dtype"] or "float32",
            "batch": 1,
            "rival": names[one["name"]],
            "version": f"{version}, {one['version']}" if one["name"] == TUNED else one["version"],
            "latency_s": one["median_s"],
            "ready_s": ready_s.get(one["name"]),
            "peak_mb": one["peak_mb"],
            "disturbed": one["disturbed"],
            "error": one["error"],
        }
        for one in timing["contestants"]
        if one["name"] in names
    ]
    return {
        "total_s": tuning["total_s"],
        "measured": sum(task["candidates_measured"] for task in tuning["tasks"]),
        "stage_s": tuning["stage_s"],
        "left_out": timing["left_out"],
        "rows": rows,
        "peak": share_of_peak(tuning["tasks"], tuning["peak_gflops"]),
        "calls": _calls(tuning["network_profile"]),
    }


def _calls(profile: Mapping[str, Any] | None) -> dict[str, float] | None:
    """Seconds of a run of the tuned network in its process, and the seconds outside all calls."""
    if profile is None:
        return None
    return {
        "run_s": profile["run_s"],
        "between_calls_s": profile["run_s"] - sum(call["seconds"] for call in profile["calls"]),
    }


def share_of_peak(tasks: Sequence[Mapping[str, Any]], peak_gflops: float | None) -> dict[str, Any]:
    """Rates of a network's tasks as shares of the cores' peak of `peak_gflops`, together and individually.

    On a device with an unmeasured peak, the shares are None.

    An untuned task counts with its untuned latency. A task without any latency does not count, and neither
    does a task that the network does not call.
    """
    timed = []
    for task in tasks:
        latency_s = task["tuned_latency_s"] or task["untuned_latency_s"]
        if latency_s is not None and task["weight"]:
            gflop, seconds = task["weight"] * task["flops"] / 1e9, task["weight"] * latency_s
            timed.append((task, gflop, seconds))
    total_s = sum(seconds for *_, seconds in timed)
    gflop = sum(gflop for _, gflop, _ in timed)

    def share(gflop: float, seconds: float) -> float | None:
        return gflop / seconds / peak_gflops if peak_gflops and seconds else None

    listed = [
        {
            "task": task["name"],
            "operator": task["operator"],
            "weight": task["weight"],
            "share_of_time": seconds / total_s,
            "share_of_peak": share(gflop, seconds),
        }
        for task, gflop, seconds in sorted(timed, key=lambda found: -found[-1])
    ]
    return {
        "peak_gflops": peak_gflops,
        "tasks": sum(bool(task["weight"]) for task in tasks),
        "gflop": gflop,
        "tasks_s": total_s,
        "share_of_peak": share(gflop, total_s),
        "longest": [one for one in listed if one["share_of_time"] >= LEAST_SHARE],
    }
