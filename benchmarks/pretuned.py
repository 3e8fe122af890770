"""Searches that begin with pretuned schedules of similar tasks compared with default ones, by program.

    python -m benchmarks.pretuned
    python -m benchmarks.pretuned --tasks 40 --minutes 60

The tasks are a random choice of those on which the shipped cost model was tested. The file of schedules
contains the bundled records without tasks of their shapes. Tasks without a similar schedule in it are left
out and
counted: their search begins as it does by default. Each task is searched by default and with pretuned starts,
with fewer of them, and with those of nearly the same tasks only. The first two also run without templates,
which are starts of another kind. The latencies of the programs are kept in the order of measurement. A task
needs two minutes, and a later call continues.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.records.schema import TaskRow
from foretune.dataset.records.stored_tasks import stored_rows, stored_task
from foretune.dataset.records.task_shapes import shape_hash
from foretune.inference import OneShotConfig
from foretune.inference.fasor.pretuned_schedules import PretunedSchedules
from foretune.inference.fasor.pretuned_starts import PretunedStarts
from foretune.inference.pretune import pretune
from foretune.inference.spaces.stock import StockSpace
from foretune.inference.starts.adapted import ProgramAdapter
from foretune.models.checkpoints.checkpoint import load_checkpoint

from .common import ROOT, argument_parser, start, this_machine
from .kept_runs import KeptRuns, add_options
from .single_tasks.processes import search, task_file
from .trained_on import CPUS

SEARCHES: Mapping[str, Sequence[str]] = {
    "default": (),
    "pretuned": ("starts=pretuned",),
    "two pretuned": ("starts=pretuned", "pretuned.programs=2"),
    "nearly the same": ("starts=pretuned", "pretuned.similarity=0.9"),
    "without templates": ("templates=0",),
    "pretuned, without templates": ("starts=pretuned", "templates=0"),
}
"""Settings of OneShotConfig by the name of the search in a result."""

MINUTES = 60.0
"""Minutes after which no further search begins, by default."""


def held_out(folders: Sequence[Path], checkpoint: str, seed: int) -> list[TaskRow]:
    """Tasks of datasets on which a checkpoint was tested, in random order."""
    tested = set(load_checkpoint(checkpoint).card.split.tasks("test"))
    rows = {
        row.workload_hash: row
        for folder in folders
        for row in stored_rows(folder)
        if row.workload_hash in tested
    }
    names = np.random.default_rng(seed).permutation(sorted(rows)).tolist()
    return [rows[name] for name in names]


def with_starts(rows: Sequence[TaskRow], file: Path) -> Iterator[tuple[Task, int]]:
    """Yields each task with the number of its pretuned starts."""
    target = parse_target("llvm")
    adapter = ProgramAdapter(target, StockSpace(OneShotConfig().max_code))
    starts = PretunedStarts(PretunedSchedules(file), target, adapter)
    for row in rows:
        task = stored_task(row)
        yield task, len(starts.starts(task))


def searched(
    runs: KeptRuns, names: Sequence[str], task: Task, file: Path, schedules: int, seed: int
) -> dict[str, Any]:
    """A run of each search of a task by the name of the search, in a different order for each seed."""
    module = task_file(runs.folder, task.workload_hash, task)
    found = {}
    for place in range(len(names)):
        name = names[(seed + place) % len(names)]
        run = runs.kept(
            f"{task.workload_hash}-{name}",
            {"seed": seed, "settings": SEARCHES[name], "schedules": schedules},
            partial(search, ROOT, module, seed, [*SEARCHES[name], f"pretuned.file={file}"]),
        )
        if run is not None:
            found[name] = {key: value for key, value in run.items() if key != "module"}
    return found


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--data", type=Path, default=Path("data"), help="folder of the datasets (%(default)s)")
    add("--checkpoint", default="cpu", help="its test tasks are searched (%(default)s)")
    add("--tasks", type=int, default=24, help="tasks with a start (%(default)s)")
    add("--searches", nargs="+", choices=SEARCHES, default=list(SEARCHES), help="(all)")
    add("--seed", type=int, default=0, help="of the choice of tasks and of the searches (%(default)s)")
    add("--variant", default="", help="suffix of the result's folder, for other tasks")
    add_options(parser, "outputs/benchmarks/pretuned", str(MINUTES), extends=False)
    parser.set_defaults(overrides=[])
    return parser.parse_args(words)


def main() -> None:
    arguments = arguments_of()
    begun, machine = start(), this_machine()
    runs = KeptRuns(arguments, MINUTES)
    folders = [arguments.data / name for name in CPUS]
    rows = held_out(folders, arguments.checkpoint, arguments.seed)
    runs.folder.mkdir(parents=True, exist_ok=True)
    file = runs.folder / "pretuned.parquet"
    schedules = pretune(folders, file, {shape_hash(row) for row in rows})
    tasks, without = [], 0
    for task, starts in with_starts(rows, file):
        if not starts:
            without += 1
            continue
        seed = arguments.seed + len(tasks)  # turns the order of the searches
        if len(tasks) == arguments.tasks or not runs.in_time(task.name):
            break
        found = searched(runs, arguments.searches, task, file, schedules, seed)
        if found.keys() == set(arguments.searches):
            tasks.append({"task": task.name, "operator": task.operator, "starts": starts, "runs": found})
            print(described(tasks[-1]), flush=True)
    result = {
        "checkpoint": arguments.checkpoint,
        "schedules": schedules,
        "first_round": OneShotConfig().per_round,
        "tasks_without_starts": without,
        "tasks": tasks,
    }
    runs.write("pretuned", result, begun, machine)


def described(row: Mapping[str, Any]) -> str:
    """One line about the searches of a task."""
    parts = [
        f"{name} {1e3 * min(run['latencies_s'], default=float('nan')):.4f} ms of {len(run['latencies_s'])}"
        for name, run in row["runs"].items()
    ]
    return f"{row['task']}: {'; '.join(parts)}"


if __name__ == "__main__":
    main()
