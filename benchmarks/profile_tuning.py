"""Where the time of a tuning run goes, and what searching beside a timing does to the latency measured.

Runs `foretune-tune` on a network in each of several ways with an empty database, and writes wall time by
stage, work by step and milliseconds a candidate. With --disturbance it then times the same programs in turns:
alone, beside searches that are held back while a program is timed (search.overlap=building), and beside
searches that are not (all).

    python benchmarks/profile_tuning.py --network resnet18
    python benchmarks/profile_tuning.py --disturbance --ways
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from foretune.dataset.measure import MeasureJob, WorkerPool
from foretune.dataset.operators import Conv2d, to_task
from foretune.dataset.program_sampling import RandomSampler
from foretune.dataset.replay import candidate_module_json
from foretune.dataset.target_hardware import target_hardware
from foretune.dataset.tvm_compat import parse_target
from foretune.inference import OneShotConfig
from foretune.inference.search_process import task_to_json
from foretune.inference.searchers import held_back, start_searchers
from foretune.inference.tune_result import load_result
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results" / "profile_tuning.json"

_ANY = "search.max_code=null"
_EVOLUTION, _FIXED = "search.strategy=evolutionary", "search.stop.expected_improvement=0"
WAYS = {
    "one process": (_ANY, _EVOLUTION, _FIXED, "search.processes=0"),
    "search processes": (_ANY, _EVOLUTION, _FIXED),
    "adaptive K": (_ANY, _EVOLUTION),
    "drafting": (_ANY,),
    "no long programs": (),
}
"""Overrides by name: each way adds one thing to the one before."""

CONV = Conv2d(batch=1, height=28, width=28, in_channels=64, out_channels=64, kernel=3, padding=1)


def tune(network, overrides, arguments):
    """The result of one run from the command line, with nothing known before."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "foretune.inference.tune", f"network={network}", *overrides),
            *(f"output={folder}/report", f"database={folder}/database", *arguments),
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return load_result(Path(folder) / "report" / "report.json")


def profile(result):
    """What is kept of a run: seconds, and milliseconds a candidate by step."""
    scored = sum(task.candidates_scored for task in result.tasks)
    measured = sum(task.candidates_measured for task in result.tasks)
    shared = {"building": measured, "timing": measured}
    return {
        "total_s": result.total_s,
        "candidates_scored": scored,
        "candidates_measured": measured,
        "estimated_latency_s": result.curve[-1][1],
        "stage_s": result.stage_s,
        "work_s": result.profile_s,
        "work_ms_a_candidate": {
            step: 1e3 * seconds / max(shared.get(step, scored), 1)
            for step, seconds in result.profile_s.items()
        },
    }


def print_profiles(profiles, console):
    for part, unit in (("stage_s", "wall time, s"), ("work_s", "work of all processes, s")):
        table = Table("step", *profiles, title=unit)
        for step in dict.fromkeys(step for run in profiles.values() for step in run[part]):
            table.add_row(step, *(f"{run[part].get(step, 0.0):.1f}" for run in profiles.values()))
        console.print(table)


@contextmanager
def searching(searchers, task):
    """Keeps searchers at work on a task for the time of the block."""
    over = threading.Event()

    def work(searcher):
        while not over.is_set():
            searcher.ask(
                {"op": "propose", "key": task.workload_hash, "learned": {}, "task": task_to_json(task)}
            )
            searcher.connection.poll(None)
            searcher.reply()

    threads = [threading.Thread(target=work, args=(searcher,)) for searcher in searchers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def disturbance(programs, rounds):
    """Geometric mean and largest ratio of latencies beside searches to those alone."""
    target, task = parse_target("llvm"), to_task(CONV)
    proposed = RandomSampler(task, target, per_round=programs, seed=0).propose()
    jobs = [MeasureJob(candidate_module_json(candidate), task=trace) for trace, candidate in proposed]
    searchers = start_searchers(OneShotConfig(), target, "cpu", target_hardware(target))
    samples = {"alone": [], "building": [], "all": []}
    try:
        with WorkerPool(target) as pool:
            quiet = pool.around_timing
            for _ in range(rounds):
                for name, latencies in samples.items():
                    pool.around_timing = (lambda: held_back(searchers)) if name == "building" else quiet
                    if name == "alone":
                        latencies.append([outcome.latency_s for outcome in pool.measure(jobs)])
                    else:
                        with searching(searchers, task):
                            latencies.append([outcome.latency_s for outcome in pool.measure(jobs)])
    finally:
        for searcher in searchers:
            searcher.close()
    medians = {name: np.median(np.array(latencies), axis=0) for name, latencies in samples.items()}
    ran = np.all([np.isfinite(latencies) for latencies in medians.values()], axis=0)
    ratios = {name: (medians[name] / medians["alone"])[ran].tolist() for name in ("building", "all")}
    return {
        name: {
            "programs": len(values),
            "geomean_ratio": math.exp(statistics.fmean(math.log(value) for value in values)),
            "largest_ratio": max(values),
        }
        for name, values in ratios.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--network", default="resnet18")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), help="names of the ways to run, default all")
    parser.add_argument("--disturbance", action="store_true", help="also time programs beside searches")
    parser.add_argument("--programs", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="for foretune-tune, after a --")
    arguments = parser.parse_args()

    result = {"network": arguments.network, "overrides": arguments.overrides}
    result["ways"] = {
        name: profile(tune(arguments.network, WAYS[name], arguments.overrides)) for name in arguments.ways
    }
    if result["ways"]:
        print_profiles(result["ways"], Console())
    if arguments.disturbance:
        result["disturbance"] = disturbance(arguments.programs, arguments.rounds)
        print(json.dumps(result["disturbance"], indent=2))
    arguments.out.write_text(json.dumps(result, indent=2) + "\n")
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
