"""Time from a network to its tuned library, for this checkout and an earlier one in turns.

    python -m benchmarks.time_to_library --against ../before
    python -m benchmarks.time_to_library --against ../before --networks resnet18 --runs 3

Each run starts with an empty database, an empty cache and the default settings, rivals included. A library
counts from the moment at which its file is complete. The libraries of both checkouts are then timed side by
side. Runs are kept in `outputs/benchmarks/time_to_library` until a commit changes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .checkouts import commit_of, tune_command
from .common import ROOT, argument_parser, geometric_mean, in_turns, read_json, start, this_machine
from .kept_runs import KeptRuns, add_options, earlier_result
from .networks.runs import LIMIT_S, side_by_side

NETWORKS = (
    *("resnet18", "mobilenetv2", "bert_base", "squeezenet"),
    *("shufflenetv2", "gpt2", "mobilenetv3_large", "efficientnet_b0"),
)

MINUTES = 90.0
"""Minutes after which no further run begins, by default."""

STEP_S = 0.05
"""Seconds between two looks for the library."""

SEARCH = "search and measure"


def timed_run(
    checkout: Path, network: str, seed: int, library: Path, overrides: Sequence[str]
) -> dict[str, Any]:
    """Seconds of one run until its library, the end of the search and the end of the report, and by stage."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch:
        # A cache of its own, so that no run finds the network of another one.
        own = {"PYTHONPATH": str(checkout.resolve() / ".typing"), "XDG_CACHE_HOME": f"{scratch}/cache"}
        environment = {**os.environ, **own}
        words = [f"network={network}", f"seed={seed}", f"export={library}", *overrides]
        words += [f"output={scratch}/report", f"database={scratch}/found"]
        command = [sys.executable, *tune_command(checkout), *words]
        began = time.monotonic()
        path = Path(scratch) / "log"
        with path.open("w") as log, _started(command, environment, scratch, log) as process:
            library_s = None
            while process.poll() is None:
                if library_s is None and library.is_file():
                    library_s = time.monotonic() - began
                if time.monotonic() - began > LIMIT_S:
                    process.kill()
                time.sleep(STEP_S)
        total_s = time.monotonic() - began
        if process.returncode or library_s is None:
            text = path.read_text(errors="replace")
            raise subprocess.CalledProcessError(process.returncode, command, stderr=text[-2000:])
        report = read_json(Path(scratch) / "report" / "report.json")
    stages = list(report["stage_s"].items())
    until_search = sum(seconds for _, seconds in stages[: [stage for stage, _ in stages].index(SEARCH) + 1])
    return {
        "seed": seed,
        "load_before": load,
        "library_s": library_s,
        "search_end_s": until_search,
        "total_s": total_s,
        "stage_s": report["stage_s"],
        "tasks": len(report["tasks"]),
        "measured": sum(task["candidates_measured"] for task in report["tasks"]),
    }


def _started(command: Sequence[str], environment: Mapping[str, str], folder: str, log: Any) -> Any:
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)


def one_pair(
    network: str, seed: int, folder: Path, against: Path, overrides: Sequence[str]
) -> dict[str, Any]:
    """A run of each checkout, in another order for each seed, and their libraries timed side by side."""
    folder.mkdir(parents=True, exist_ok=True)
    checkouts = {"before": against, "now": ROOT}
    libraries = {name: folder / f"{network}-{seed}-{name}.so" for name in checkouts}
    try:
        for library in libraries.values():
            library.unlink(missing_ok=True)
        runs = {
            name: timed_run(checkouts[name], network, seed, libraries[name], overrides)
            for name in sorted(checkouts, reverse=bool(seed % 2))
        }
        return {**runs, "side_by_side_s": side_by_side(network, libraries)}
    finally:
        for library in libraries.values():
            library.unlink(missing_ok=True)


def summary(networks: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Geometric means over networks and runs: time and latency of this checkout over the earlier one."""
    runs = [run for each in networks.values() for run in each["runs"]]
    if not runs:
        return {}
    ratios = {
        f"{name.removesuffix('_s')}_ratio": geometric_mean(
            [run["now"][name] / run["before"][name] for run in runs]
        )
        for name in ("library_s", "search_end_s", "total_s")
    }
    latency = [run["side_by_side_s"]["now"] / run["side_by_side_s"]["before"] for run in runs]
    return {
        "ratio_to_before": ratios["library_ratio"],
        "latency_ratio": geometric_mean(latency),
        "search_end_ratio": ratios["search_end_ratio"],
        "total_ratio": ratios["total_ratio"],
    }


def describe(network: str, seed: int, run: Mapping[str, Any]) -> str:
    """One line about a pair of runs."""
    parts = [
        f"{name} {run[name]['library_s']:.1f} s to the library, {run[name]['total_s']:.1f} s in all, "
        f"{run[name]['measured']} programs, {1e3 * run['side_by_side_s'][name]:.3f} ms"
        for name in ("before", "now")
    ]
    return f"{network}, seed {seed}: {'; '.join(parts)}"


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--against", type=Path, metavar="CHECKOUT", required=True, help="the earlier checkout")
    add("--networks", nargs="+", default=NETWORKS, help="(%(default)s)")
    add("--runs", type=int, default=1, help="seeds of each (%(default)s)")
    add_options(parser, "outputs/benchmarks/time_to_library", str(MINUTES))
    add("overrides", nargs="*", metavar="OVERRIDE", help="for foretune tune of both, after a --")
    return parser.parse_args(words)


def main() -> None:
    arguments = arguments_of()
    begun, machine = start(), this_machine()
    runs = KeptRuns(arguments, MINUTES, earlier=earlier_result(arguments, "time_to_library", machine))
    before = commit_of(arguments.against)
    found = {name: list(each["runs"]) for name, each in runs.earlier.get("networks", {}).items()}
    for seed, network in in_turns(arguments.networks, arguments.runs):
        name, known = f"{network}-{seed}", found.setdefault(network, [])
        if any(run["now"]["seed"] == seed for run in known) or not runs.in_time(name):
            continue
        settings = {"before": before, "network": network, "seed": seed, "overrides": arguments.overrides}
        make = partial(one_pair, network, seed, runs.folder, arguments.against, arguments.overrides)
        if (run := runs.kept(name, settings, make)) is not None:
            known.append(run)
            print(describe(network, seed, run), flush=True)
    networks = {name: {"runs": each} for name, each in found.items() if each}
    runs.write(
        "time_to_library", {"before": before, **summary(networks), "networks": networks}, begun, machine
    )


if __name__ == "__main__":
    main()
