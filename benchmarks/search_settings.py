"""What settings of a search are worth: the same tasks searched with each of them, in turns.

    python benchmarks/search_settings.py --settings "" search.draft.caution=0 search.draft.keep=32
    python benchmarks/search_settings.py --tasks 12 --settings "" "search.rounds=4 search.top_k=32"
    python benchmarks/search_settings.py --settings "" "checkpoint=A search.draft.checkpoint=B"
    python benchmarks/search_settings.py --of C1D:0 mobilenetv2:0 --settings "" search.top_k=48

A setting is a word of Hydra overrides of foretune-tune's search and of its checkpoint; the first one is what
the others are held against.
The tasks are the largest of each network, one network after the other, or those of --of, as tuning_curves.py
names them. Each search is of one task in one process, without the network's overlap of searching and
measuring. The best programs of all settings of a task and seed are timed in turns by one evaluator, so that
a search that measured more has no luck of its own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from foretune.configuration import from_hydra
from foretune.dataset.measure import WorkerPool
from foretune.dataset.target_hardware import target_hardware
from foretune.dataset.task import Task
from foretune.dataset.tvm_compat import load_tensor_intrinsics, parse_target
from foretune.inference import OneShotConfig, PretrainedCostModel
from foretune.inference.one_shot import search_one_shot
from foretune.inference.tune import TuneConfig
from hydra import compose, initialize_config_module
from tuning_curves import geometric_mean, largest_first, tasks_of, time_in_turns
from tvm.target import Target

RESULTS = Path(__file__).parent / "results" / "search_settings.json"
NETWORKS = ("resnet18", "mobilenetv2", "bert_base")
SMALLEST_FLOPS = 1e6
"""Smaller tasks are of no consequence, and too short to tell settings apart."""


def largest_tasks(count: int, target: Target) -> list[Task]:
    """The tasks with the most operations of each network, in turns."""
    of_networks = [
        [task for task in largest_first(name, target) if task.flops > SMALLEST_FLOPS] for name in NETWORKS
    ]
    return [task for same_place in zip(*of_networks, strict=False) for task in same_place][:count]


def tasks_named(names: Sequence[str], target: Target) -> list[Task]:
    """The tasks of networks and of TVM's `te_workload` by names such as resnet18:0 and C1D:0."""
    return [replace(task, source=name) for name, task, _ in tasks_of(names, target, 0)]


def add_task_arguments(parser: argparse.ArgumentParser) -> None:
    """Which tasks are searched, and how often: what `seeds_and_tasks` reads."""
    parser.add_argument("--tasks", type=int, default=9, help="how many (%(default)s)")
    parser.add_argument("--of", nargs="+", metavar="SOURCE:NUMBER", help="these tasks instead")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])


def seeds_and_tasks(arguments: argparse.Namespace, target: Target) -> list[tuple[int, Task]]:
    """All tasks with the first seed, then all with the next."""
    tasks = tasks_named(arguments.of, target) if arguments.of else largest_tasks(arguments.tasks, target)
    return list(itertools.product(arguments.seeds, tasks))


def minutes_left(started: float, done: int, of: int) -> float:
    """By the pace since `started`, seconds of `time.monotonic`."""
    return (time.monotonic() - started) / 60 * (of / done - 1)


def search_config(overrides: Sequence[str]) -> tuple[str, OneShotConfig]:
    """Checkpoint and settings of a search by overrides of foretune-tune; raises as that command does."""
    composed = from_hydra(compose("tune", list(overrides)), TuneConfig)
    return composed.checkpoint, composed.search


def summary_of(rows: list[dict[str, Any]], settings: list[str]) -> dict[str, Any]:
    """Of each setting: latency as a multiple of the first's, and means of seconds and of measurements."""
    found = {}
    for name in settings:
        of = [row["found"][name] for row in rows]
        first = [row["found"][settings[0]] for row in rows]
        ratios = [own["latency_s"] / other["latency_s"] for own, other in zip(of, first, strict=True)]
        found[name] = {
            "latency_ratio": geometric_mean(ratios),
            "search_s": statistics.fmean(each["search_s"] for each in of),
            "measure_s": statistics.fmean(each["measure_s"] for each in of),
            "measured": statistics.fmean(each["measured"] for each in of),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--settings", nargs="+", default=["", "search.draft.caution=0"])
    add_task_arguments(parser)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()

    target = parse_target("llvm")
    load_tensor_intrinsics()
    with initialize_config_module("foretune.conf", version_base="1.3"):
        configs = {name or "default": search_config(name.split()) for name in arguments.settings}
    hardware = target_hardware(target)
    checkpoints = {checkpoint for checkpoint, _ in configs.values()}
    models = {name: PretrainedCostModel.load(name, hardware) for name in checkpoints}
    told: dict[str, Any] = {
        "machine": hardware.name,
        "hardware_id": hardware.hardware_id,
        "target": str(target),
    }
    told["settings"] = {
        name: {"checkpoint": checkpoint, **asdict(config)} for name, (checkpoint, config) in configs.items()
    }
    rows: list[dict[str, Any]] = []
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    searches = seeds_and_tasks(arguments, target)
    started = time.monotonic()
    with WorkerPool(target) as pool:
        for seed, task in searches:
            found, modules = {}, []
            for name, (checkpoint, config) in configs.items():
                result = search_one_shot(task, target, models[checkpoint], pool, replace(config, seed=seed))
                if result.best is None:
                    raise SystemExit(f"{task.name}, {name}: no candidate ran")
                modules.append(result.best.proposal.module)
                found[name] = {
                    "search_s": result.search_s,
                    "measure_s": result.measure_s,
                    "measured": len(result.validations),
                    "scored": result.candidates_scored,
                    "measured_latency_s": result.best.latency_s,
                }
            for name, latency_s in zip(configs, time_in_turns(modules, target), strict=True):
                found[name]["latency_s"] = latency_s
            rows.append({"source": task.source, "task": task.name, "seed": seed, "found": found})
            summary = summary_of(rows, list(configs))
            told |= {"summary": summary, "rows": rows}
            arguments.out.write_text(json.dumps(told, indent=1, default=str) + "\n")
            left = minutes_left(started, len(rows), len(searches))
            ratios = "  ".join(
                f"{name}: {of['latency_ratio']:.3f} in {of['search_s'] + of['measure_s']:.1f} s"
                for name, of in summary.items()
            )
            print(f"{task.name} seed {seed}, {left:.1f} min left; so far {ratios}", flush=True)
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
