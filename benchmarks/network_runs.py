"""Whole networks tuned by foretune-tune several times, each time with an empty database: medians of the runs.

    python benchmarks/network_runs.py
    python benchmarks/network_runs.py --networks resnet18 --runs 5 -- search=high_quality

The networks take turns, so that a slow hour of the machine is no network's own. A run that is there, in
--runs-in, is not made again unless the settings of its search or a checkpoint change: stop it and go on as
you like. Writes a table with all runs, and the report of each network's median run beside it.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from curve_tuners import searched_with
from foretune.dataset.target_hardware import target_hardware
from foretune.dataset.tvm_compat import parse_target
from foretune.inference.tune_result import EAGER, TUNED, UNTUNED, TuneResult, load_result, untuned_by_tasks_s
from hydra import initialize_config_module
from rich.console import Console
from rich.table import Table
from search_settings import search_config

RESULTS = Path(__file__).parent / "results"
NETWORKS = ("resnet18", "mobilenetv2", "bert_base")


def made_run(
    folder: Path, network: str, seed: int, overrides: Sequence[str], searched: Mapping[str, Any]
) -> TuneResult:
    """The result of a run of foretune-tune: that of an earlier call, or one that is made now.

    `searched` is what the overrides stand for: see `searched_with`.
    """
    command = [
        *(sys.executable, "-m", "foretune.inference.tune", f"network={network}", f"seed={seed}"),
        *(f"output={folder}", *overrides),
    ]
    told, settings = folder / "command.json", {"command": command[1:], **searched}
    if not (told.is_file() and json.loads(told.read_text()) == settings):
        with tempfile.TemporaryDirectory() as database:
            subprocess.run([*command, f"database={database}"], check=True, stdout=subprocess.DEVNULL)
        told.write_text(json.dumps(settings) + "\n")
    return load_result(folder / "report.json")


def of_run(result: TuneResult, seed: int) -> dict[str, Any]:
    """What the table keeps of a run; latencies are medians in seconds."""
    latency_s = {latency.name: latency.median_s for latency in result.latencies}
    return {
        "seed": seed,
        "started_at": result.started_at,
        "total_s": result.total_s,
        "tuned_s": latency_s[TUNED],
        "eager_s": latency_s[EAGER],
        # Where it was left out, because it takes so long, what its tasks take.
        "untuned_s": latency_s.get(UNTUNED, untuned_by_tasks_s(result.tasks)),
        "untuned_timed": UNTUNED in latency_s,
        "estimated_s": result.curve[-1][1],
        "scored": sum(task.candidates_scored for task in result.tasks),
        "measured": sum(task.candidates_measured for task in result.tasks),
        "failed": sum(task.candidates_failed for task in result.tasks),
        "max_abs_difference": result.max_abs_difference,
        "stage_s": result.stage_s,
        "work_s": result.profile_s,
    }


def summary_of(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Medians over runs; ratios above 1 where the tuned network is faster."""
    return {
        "total_s": statistics.median(run["total_s"] for run in runs),
        "tuned_s": statistics.median(run["tuned_s"] for run in runs),
        "eager_s": statistics.median(run["eager_s"] for run in runs),
        "eager_ratio": statistics.median(run["eager_s"] / run["tuned_s"] for run in runs),
        "untuned_ratio": statistics.median(run["untuned_s"] / run["tuned_s"] for run in runs),
    }


def median_run(runs: Sequence[dict[str, Any]]) -> int:
    """Place of the run whose ratio to eager is the median, the slower of the middle two."""
    order = sorted(range(len(runs)), key=lambda place: runs[place]["eager_s"] / runs[place]["tuned_s"])
    return order[(len(runs) - 1) // 2]


def print_summary(networks: dict[str, Any], console: Console) -> None:
    table = Table("network", "runs", "whole run, s", "tuned, ms", "eager, ms", "eager/tuned", "untuned/tuned")
    for name, of in networks.items():
        found = of["medians"]
        table.add_row(
            *(name, str(len(of["runs"])), f"{found['total_s']:.0f}", f"{1e3 * found['tuned_s']:.2f}"),
            *(f"{1e3 * found['eager_s']:.2f}", f"{found['eager_ratio']:.2f}x"),
            f"{found['untuned_ratio']:.0f}x",
        )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--runs", type=int, default=3, help="seeds of each (%(default)s)")
    parser.add_argument("--runs-in", type=Path, default=Path("outputs/network_runs"), help="(%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="for foretune-tune, after a --")
    arguments = parser.parse_args()

    with initialize_config_module("foretune.conf", version_base="1.3"):
        searched = searched_with(*search_config(arguments.overrides))
    found: dict[str, list[TuneResult]] = {name: [] for name in arguments.networks}
    for seed in range(arguments.runs):
        for name in arguments.networks:
            folder = arguments.runs_in / f"{name}-{seed}"
            result = made_run(folder, name, seed, arguments.overrides, searched)
            found[name].append(result)
            run = of_run(result, seed)
            print(
                f"{name}, seed {seed}: {run['total_s']:.0f} s, {1e3 * run['tuned_s']:.2f} ms against "
                f"{1e3 * run['eager_s']:.2f} ms eager",
                flush=True,
            )
    machine = target_hardware(parse_target("llvm")).hardware_id
    told: dict[str, Any] = {"overrides": arguments.overrides, "hardware_id": machine, "networks": {}}
    for name, results in found.items():
        runs = [of_run(result, seed) for seed, result in enumerate(results)]
        shown = median_run(runs)
        told["networks"][name] = {
            "hardware": results[shown].hardware,
            "versions": results[shown].versions,
            "report_of_run": shown,
            "medians": summary_of(runs),
            "runs": runs,
        }
        (arguments.out / name).mkdir(parents=True, exist_ok=True)
        for file in ("report.json", "report.html"):
            shutil.copy(arguments.runs_in / f"{name}-{shown}" / file, arguments.out / name / file)
    ratios = [of["medians"]["eager_ratio"] for of in told["networks"].values()]
    told["eager_ratio_geomean"] = math.exp(statistics.fmean(map(math.log, ratios)))
    (arguments.out / "network_runs.json").write_text(json.dumps(told, indent=1) + "\n")
    print_summary(told["networks"], Console())
    print(f"wrote {arguments.out / 'network_runs.json'}")


if __name__ == "__main__":
    main()
