"""MetaSchedule's own search of a network for a GPU, task by task, in a separate process.

    python -m benchmarks.gpu_networks.stock NETWORK --folder FOLDER --trials 16 --limit-s 300

Finished tasks are kept in the folder, and the next call continues. The last printed line is the state as
JSON: the number of tasks `left`, or the latency of the compiled network.
"""

from __future__ import annotations

import argparse
import ast
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foretune.compiler.networks import Lowering, extract_tasks, load_network, to_relax
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import available_cores, parse_target
from foretune.inference.deploy.compile import CompiledNetwork, compile_network
from numpy.typing import NDArray
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from ..common import read_json, warm_seconds, write_json
from ..networks.dry_runner import DRY_STRATEGY, DryRunner
from ..networks.stock import search

TURNS = 11
"""Timed turns of the network."""


def searched(
    task: Task, target: Target, folder: Path, *, seed: int, trials: int, dry_run: bool
) -> dict[str, Any]:
    """Searches a task once; a finished search is read from its folder."""
    done = folder / "done.json"
    if not done.is_file():
        begun, error = time.perf_counter(), ""
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob("database_*.json"):  # of a search that was stopped
            left.unlink()
        try:
            search(
                [task],
                target,
                folder,
                seed=seed,
                trials=trials,
                runner=DryRunner() if dry_run else "local",
                strategy=DRY_STRATEGY if dry_run else "evolutionary",
                threads=available_cores(),
            )
        except Exception as failure:  # """Merges the records of several databases."""
            error = str(failure).strip().splitlines()[-1][-200:]
        lines = folder / "database_tuning_record.json"
        measured = len(lines.read_text().splitlines()) if lines.is_file() else 0
        facts = {"task": task.name, "search_s": time.perf_counter() - begun, "measured": measured}
        write_json(done, {**facts, "error": error})
    facts = read_json(done)
    return dict(facts)


def together(folders: Sequence[Path]) -> ms.Database:
    """Median of the turns; each ends when the device is done."""
    database = ms.database.MemoryDatabase()
    for folder in folders:
        if (folder / "database_tuning_record.json").is_file():
            for one in ms.database.JSONDatabase(work_dir=str(folder)).get_all_tuning_records():
                workload = database.commit_workload(one.workload.mod)
                database.commit_tuning_record(
                    ms.database.TuningRecord(one.trace, workload, one.run_secs, one.target, one.args_info)
                )
    return database


def latency_s(compiled: CompiledNetwork, inputs: Sequence[NDArray[Any]]) -> float:
    """Median of the turns, each until the device is done."""
    call = compiled.bind(*inputs)

    def run() -> None:
        call()
        compiled.device.sync()

    return statistics.median(warm_seconds(run, 0.2) for _ in range(TURNS))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("network")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--inputs", help="as inputs= of foretune tune")
    parser.add_argument("--trials", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit-s", type=float, required=True)
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args()
    ends, begun = time.monotonic() + given.limit_s, time.perf_counter()
    target = parse_target(given.target)
    inputs = ast.literal_eval(given.inputs) if given.inputs else None
    network = load_network(given.network, inputs=inputs)
    relax_mod = to_relax(network, target, Lowering(dtype=given.dtype))
    tasks = extract_tasks(relax_mod, target, given.network)
    before_s = time.perf_counter() - begun
    folders, found = [], []
    for number, task in enumerate(tasks):
        folders.append(given.folder / f"{number:03d}-{task.workload_hash}")
        if not (folders[-1] / "done.json").is_file() and time.monotonic() > ends:
            print(json.dumps({"left": len(tasks) - number}))
            return
        found.append(
            searched(task, target, folders[-1], seed=given.seed, trials=given.trials, dry_run=given.dry_run)
        )
    begun = time.perf_counter()
    compiled = compile_network(relax_mod, target, together(folders))
    facts = {
        "left": 0,
        "tasks": len(tasks),
        "measured": sum(one["measured"] for one in found),
        "search_s": sum(one["search_s"] for one in found),
        "failed": [one["task"] for one in found if one["error"]],
        "unscheduled": list(compiled.unscheduled),
        "latency_s": None if given.dry_run else latency_s(compiled, network.inputs),
    }
    print(json.dumps({**facts, "ready_s": before_s + facts["search_s"] + time.perf_counter() - begun}))


if __name__ == "__main__":
    main()
