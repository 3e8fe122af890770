"""Single tasks searched by `foretune.inference.tune_tasks`, several seeds each, one process per search.

    python -m benchmarks.single_tasks
    python -m benchmarks.single_tasks --against ../before --seeds 3
    python -m benchmarks.single_tasks --tasks C2D:0 GMM:0 --settings "" "top_k=24 rounds=3"

Tasks, seeds and contestants take turns. Contestants are this checkout and another one, or each of the
settings, which are fields of OneShotConfig such as `stop.minimum=4`, or `checkpoint=PATH`. One evaluator of
this checkout times the best program of each search in turns, with cold caches and with warm ones. Searches
are kept in `outputs/benchmarks/single_tasks` until the commit changes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import parse_target
from tvm.target import Target

from ..checkouts import commit_of
from ..common import (
    ROOT,
    argument_parser,
    geometric_mean,
    in_turns,
    kept_run,
    median_spread,
    start,
    this_machine,
    write_result,
)
from ..tasks import TEN, tasks_named, time_in_turns
from .processes import search, task_file

Contestant = tuple[Path, tuple[str, ...]]
"""Checkout and settings of a search."""


def with_latencies(
    runs: Mapping[str, list[dict[str, Any]]], target: Target, folder: Path, again: bool
) -> dict[str, list[dict[str, Any]]]:
    """The runs with the latency of their program, `cold_s` and `warm_s`, in place of the program."""
    modules = sorted({run["module"] for each in runs.values() for run in each if run["module"]})
    timed = {
        caches: kept_run(
            folder / f"{caches}.json",
            {"modules": modules},
            lambda flush=caches == "cold": time_in_turns(modules, target, flush=flush),
            again=again,
        )
        for caches in ("cold", "warm")
    }

    def latency(run: Mapping[str, Any], caches: str) -> float | None:
        return timed[caches][modules.index(run["module"])] if run["module"] else None

    return {
        name: [
            {key: value for key, value in run.items() if key != "module"}
            | {"cold_s": latency(run, "cold"), "warm_s": latency(run, "warm")}
            for run in each
        ]
        for name, each in runs.items()
    }


def describe(name: str, runs: Mapping[str, list[dict[str, Any]]]) -> str:
    """One line about the runs of a task."""
    parts = []
    for contestant, each in runs.items():
        ran = [run["cold_s"] for run in each if run["cold_s"]]
        seconds = median_spread([run["seconds"] for run in each])
        latency = f"{1e3 * geometric_mean(ran):.4f} ms" if ran else "no program"
        parts.append(f"{contestant} {seconds.middle:.1f} s, {latency}")
    return f"{name}: " + "; ".join(parts)


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--tasks", nargs="+", default=TEN, metavar="SOURCE:NUMBER", help="(ten tasks)")
    add("--seeds", type=int, default=3, help="how many (%(default)s)")
    add("--settings", nargs="+", default=[""], metavar='"NAME=VALUE ..."', help="each a contestant")
    add("--against", type=Path, metavar="CHECKOUT", help="compare with this checkout")
    add("--minutes", type=float, help="begin no search after so many")
    add("--again", action="store_true", help="run anew what is kept")
    add("--runs-in", type=Path, default=Path("outputs/benchmarks/single_tasks"), help="(%(default)s)")
    add("--variant", default="", help="suffix of the result's folder")
    arguments = parser.parse_args(words)
    if arguments.against and len(arguments.settings) > 1:
        parser.error("--against compares checkouts: give one of --settings at most")
    return arguments


def contestants_of(arguments: argparse.Namespace) -> dict[str, Contestant]:
    """Checkouts with the same settings, or this checkout with each of the settings."""
    if arguments.against:
        words = tuple(arguments.settings[0].split())
        return {"this": (ROOT, words), "other": (arguments.against, words)}
    return {given or "default": (ROOT, tuple(given.split())) for given in arguments.settings}


def searched(
    arguments: argparse.Namespace, tasks: Mapping[str, Task], contestants: Mapping[str, Contestant]
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Runs by task and contestant; each seed takes all tasks and contestants before the next."""
    began, folder = time.monotonic(), arguments.runs_in.resolve()
    found: dict[str, dict[str, list[dict[str, Any]]]] = {name: {} for name in tasks}
    for seed, name in in_turns(list(tasks), arguments.seeds):
        if arguments.minutes is not None and time.monotonic() - began > 60 * arguments.minutes:
            print(f"{arguments.minutes} minutes are over before {name}, seed {seed}", flush=True)
            break
        task = task_file(folder, name, tasks[name])
        for contestant in list(contestants)[:: -1 if seed % 2 else 1]:
            checkout, words = contestants[contestant]
            settings = {
                "commit": commit_of(checkout),
                "workload": tasks[name].workload_hash,
                "settings": words,
            }
            run = kept_run(
                folder / "runs" / f"{name}-{contestant.replace('/', '_')}-{seed}.json",
                settings,
                partial(search, checkout, task, seed, words),
                again=arguments.again,
            )
            found[name].setdefault(contestant, []).append({"seed": seed, **run})
            print(f"{name}, {contestant}, seed {seed}: {run['seconds']:.1f} s", flush=True)
    return found


def main() -> None:
    arguments = arguments_of()
    begun, target = start(), parse_target("llvm")
    tasks = dict(tasks_named(arguments.tasks, target))
    contestants = contestants_of(arguments)
    rows = {}
    for name, runs in searched(arguments, tasks, contestants).items():
        if not runs:
            continue
        timed = with_latencies(runs, target, arguments.runs_in / "timed" / name, arguments.again)
        print(describe(name, timed), flush=True)
        rows[name] = {"gflop": tasks[name].flops / 1e9, "runs": timed}
    benchmark = "single_tasks" if len(contestants) == 1 else "search_settings"
    write_result(
        "single_tasks_against" if arguments.against else benchmark,
        {"settings": arguments.settings, "tasks": rows},
        begun,
        this_machine(),
        variant=arguments.variant,
        checkouts={name: of[0] for name, of in contestants.items()} if arguments.against else None,
        results=arguments.out,
    )


if __name__ == "__main__":
    main()
