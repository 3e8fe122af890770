"""MetaSchedule's own search of a network, as `ms.tune_tasks` runs it, in a separate process.

    python -m benchmarks.networks.stock NETWORK SEED TRIALS LIBRARY

Its tasks and their layouts come from `foretune tune`, its builder is the prepared one, and all other parts
are MetaSchedule's defaults. The last printed line is the cost of the search, as JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from foretune.compiler.networks import AS_FASTEST, extract_tasks, load_network, to_relax
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import load_tensor_intrinsics, make_tune_context, parse_target
from foretune.inference import prepare_builder
from foretune.inference.deploy.compile import compile_network
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

ROUND = 64
"""Programs of a round, MetaSchedule's default: each evolves anew, so rounds of 16 take four times as long."""


def search(
    tasks: Sequence[Task],
    target: Target,
    folder: Path,
    *,
    seed: int,
    trials: int,
    callbacks: Sequence[ms.MeasureCallback] = (),
    scheduler: ms.TaskScheduler | str = "gradient",
    cost_model: ms.CostModel | str = "xgb",
    runner: ms.Runner | str = "local",
    round_size: int = ROUND,
    strategy: str = "evolutionary",
    threads: int = 1,
) -> ms.Database:
    """The database of a search with `trials` programs per task, in `folder`.

    `threads` replay programs side by side, as MetaSchedule does by default on all cores.
    """
    load_tensor_intrinsics()
    database = ms.database.JSONDatabase(work_dir=str(folder))
    ms.tune_tasks(
        tasks=[
            make_tune_context(
                task.mod, target, seed=seed + 1, name=task.name, strategy=strategy, threads=threads
            )
            for task in tasks
        ],
        task_weights=[float(task.weight) for task in tasks],
        work_dir=str(folder),
        max_trials_global=trials * len(tasks),
        num_trials_per_iter=min(round_size, trials),
        builder=ms.builder.LocalBuilder(initializer=prepare_builder, timeout_sec=60.0),
        runner=runner,
        database=database,
        measure_callbacks=[*ms.measure_callback.MeasureCallback.create("default"), *callbacks],
        task_scheduler=scheduler,
        cost_model=cost_model,
    )
    return database


def main() -> None:
    network, seed, trials, library = sys.argv[1:]
    begun, target = time.perf_counter(), parse_target("llvm")
    relax_mod = to_relax(load_network(network), target, AS_FASTEST)
    tasks = extract_tasks(relax_mod, target, network)
    with tempfile.TemporaryDirectory() as scratch:
        start = time.perf_counter()
        database = search(tasks, target, Path(scratch), seed=int(seed), trials=int(trials))
        search_s = time.perf_counter() - start
        compiled = compile_network(relax_mod, target, database)
        measured = len(database)
    total_s = time.perf_counter() - begun
    compiled.export(Path(library))
    facts = {
        "seed": int(seed),
        "tasks": len(tasks),
        "trials": int(trials),
        "measured": measured,
        "unscheduled": list(compiled.unscheduled),
        "search_s": search_s,
        "total_s": total_s,
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
