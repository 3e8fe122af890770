"""One run of `foretune tune`, and the networks of two runs timed side by side."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..checkouts import python_in, tune_command
from ..common import ROOT, read_json

PROCESSES = 3
"""Processes that time networks in the same conditions, sequentially."""

LIMIT_S = 3600.0
"""Seconds after which a run is aborted."""

STOCK_LIMIT_S = 3 * LIMIT_S
"""The same for MetaSchedule's own search."""

COMPARING = ("start the rivals", "time the network")
"""Stages of a run that determine how fast the finished network is."""


class DisturbedError(Exception):
    """Other work of the machine disturbed the timing of a run, so that it does not count."""


def tune(
    checkout: Path,
    network: str,
    seed: int,
    overrides: Sequence[str],
    *,
    export: Path | None = None,
    database: Path | None = None,
    timed: bool = True,
) -> dict[str, Any]:
    """Tunes a network and returns the part of the report that belongs to the result.

    `database` is the folder of the database, by default an empty temporary one. `export` is the path for the
    tuned network; `total_s` excludes the time to write it and the time of the comparison. If `timed`, raises
    DisturbedError, because the run's own timing of the network then counts.
    """
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch:
        words = [
            f"network={network}",
            f"seed={seed}",
            f"output={scratch}/report",
            f"database={database or Path(scratch) / 'found'}",
        ]
        words += [] if export is None else [f"export={export}"]
        words += ["rivals=[eager]"] if _knows_rivals(checkout) else []
        words += ["cache=false"] if _has_cache(checkout) else []
        command = [*tune_command(checkout), *words, *overrides]
        python_in(checkout, command, cwd=Path(scratch), timeout_s=LIMIT_S)
        report = read_json(Path(scratch) / "report" / "report.json")
    names = [one["name"] for one in report.get("contestants", []) if one["disturbed"]]
    if timed and names:
        raise DisturbedError(f"{network}, seed {seed}: the timing of {', '.join(names)} was disturbed")
    return {"seed": seed, "load_before": load, **of_report(report)}


def _has_cache(checkout: Path) -> bool:
    """Whether a run could find a network that an earlier one converted, and so be faster."""
    return (checkout / "compiler" / "networks" / "cached").is_dir()


def tune_by_stock(network: str, seed: int, trials: int, library: Path) -> dict[str, Any]:
    """Tunes a network by MetaSchedule's own search, with `trials` programs per task, into `library`.

    Returns the output of `benchmarks.networks.stock` about the search.
    """
    words = ["-m", "benchmarks.networks.stock", network, str(seed), str(trials), str(library)]
    return json.loads(python_in(ROOT, words, timeout_s=STOCK_LIMIT_S).splitlines()[-1])


def _knows_rivals(checkout: Path) -> bool:
    """Whether `foretune tune` of a checkout has the option `rivals`."""
    options = checkout / "conf" / "tune.yaml"
    return options.is_file() and "\nrivals:" in options.read_text(encoding="utf-8")


def of_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of one `report.json`; seconds, and medians over the samples of each form of the network."""
    tasks, stages = report["tasks"], report["stage_s"]
    timed = report["contestants"] if "contestants" in report else report["latencies"]  # of older checkouts
    left_out = ("export", *(COMPARING if COMPARING[0] in stages else ()))
    return {
        "started_at": report["started_at"],
        "total_s": report["total_s"] - sum(stages.get(stage, 0.0) for stage in left_out),
        "stage_s": stages,
        "latency_s": {each["name"]: each["median_s"] for each in timed if each["median_s"]},
        "max_abs_difference": report["max_abs_difference"],
        "tolerance": report["tolerance"],
        "tasks": len(tasks),
        "scored": sum(task["candidates_scored"] for task in tasks),
        "measured": sum(task["candidates_measured"] for task in tasks),
        "failed": sum(task["candidates_failed"] for task in tasks),
    }


def side_by_side(network: str, libraries: Mapping[str, Path]) -> dict[str, float]:
    """Median latency in seconds of each exported network, timed in turns, over PROCESSES processes.

    The turns of a process share how its memory is laid out: five copies of BERT-base took 141 to 150 ms in
    one process, and 113 to 119 ms in the next.
    """
    names = list(libraries)
    found: dict[str, list[float]] = {name: [] for name in names}
    for first in range(PROCESSES):
        order = names[first:] + names[:first]
        words = [f"{name}={libraries[name]}" for name in order]
        printed = python_in(ROOT, ["-m", "benchmarks.networks.timing", network, *words], timeout_s=LIMIT_S)
        for name, latency_s in json.loads(printed.splitlines()[-1]).items():
            found[name].append(latency_s)
    return {name: statistics.median(each) for name, each in found.items()}
