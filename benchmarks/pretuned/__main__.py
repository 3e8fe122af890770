"""Entry of `python -m benchmarks.pretuned`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from foretune.dataset.program_sampling import RandomSampler
from foretune.dataset.records import Record, TaskRow
from foretune.dataset.replay import replay
from foretune.dataset.store import RecordStore
from foretune.dataset.stored_tasks import stored_task
from foretune.dataset.task import Task
from foretune.dataset.task_shapes import shape_hash
from foretune.dataset.tvm_compat import make_tune_context, parse_target
from foretune.inference.cost_model import PretrainedCostModel
from foretune.inference.pretune import pretune
from foretune.inference.spaces.stock import StockSpace
from foretune.inference.starts.adapted import ProgramAdapter
from foretune.inference.starts.config import PretunedConfig
from foretune.inference.starts.pretuned import PretunedStarts
from foretune.inference.starts.schedules import PretunedSchedules
from tvm.s_tir import meta_schedule as ms

from .. import pretuned
from ..common import RESULTS, argument_parser, start, this_machine, write_result

THRESHOLDS = (0.6, 0.9)
PROGRAMS = 4
"""Starts of a task, and programs drawn at random."""

DATASETS = ("cpu", "cpu-last", "cpu-proposed", "cpu-targets", "cpu-zen3", "cpu-zen5")


def main() -> None:
    parser = argument_parser(pretuned)
    parser.add_argument("--data", type=Path, default=Path("data"), help="(%(default)s)")
    parser.add_argument("--checkpoint", default="cpu", help="(%(default)s)")
    parser.add_argument("--tasks", type=int, default=40, help="held-out tasks, by chance (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS, help="(%(default)s)")
    given = parser.parse_args()
    begun = start()
    result = judged([given.data / name for name in DATASETS], given.checkpoint, given.tasks, given.seed)
    folder = write_result(
        "pretuned",
        result,
        begun,
        this_machine(),
        notes="Predicted by a cost model from the records in data/; nothing was timed.",
        results=given.out,
    )
    print(f"wrote {folder}: {result['means']}")


def judged(folders: Sequence[Path], checkpoint: str, most: int, seed: int) -> dict[str, Any]:
    """Rows of the held-out tasks and their means."""
    from foretune.models.checkpoint import load_checkpoint

    tested = set(load_checkpoint(checkpoint).card.split.tasks("test"))
    best: dict[str, Record] = {}
    rows: dict[str, TaskRow] = {}
    for folder in folders:
        store = RecordStore(folder).require()
        rows |= {row.workload_hash: row for row in store.tasks() if row.workload_hash in tested}
        for record in store.records():
            known = best.get(record.workload_hash)
            if record.workload_hash in tested and (known is None or record.latency_s < known.latency_s):
                best[record.workload_hash] = record
    hardware = {name: device for folder in folders for name, device in RecordStore(folder).hardware().items()}
    chosen = np.random.default_rng(seed).permutation(sorted(best))[:most]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pretuned.parquet"
        count = pretune(folders, file, {shape_hash(row) for row in rows.values()})
        schedules = PretunedSchedules(file)
        for name in chosen:
            record = best[name]
            model = PretrainedCostModel.load(checkpoint, hardware[record.hardware_id])
            found.append(task_row(stored_task(rows[name]), record, model, schedules, seed))
            print({key: found[-1][key] for key in found[-1] if key != "workload_hash"}, flush=True)
    return {
        "checkpoint": checkpoint,
        "schedules": count,
        "programs": PROGRAMS,
        "means": means(found),
        "tasks": found,
    }


def task_row(
    task: Task, best: Record, model: PretrainedCostModel, schedules: PretunedSchedules, seed: int
) -> dict[str, Any]:
    """Predicted scores of one task; None where it has no start."""
    target = parse_target(best.target)
    space = StockSpace(OWN_LIMIT)
    context = make_tune_context(
        task.mod, target, seed=seed, name=task.name, space=space.generator(target), threads=1
    )
    sampler = RandomSampler(
        task, target, per_round=PROGRAMS, seed=seed, space=space.generator(target), threads=1
    )
    row: dict[str, Any] = {
        "workload_hash": task.workload_hash,
        "operator": task.operator,
        "random": best_score(model, context, [trace for trace, _ in sampler.propose()]),
        "measured_best": best_score(model, context, [best.trace]),
    }
    adapter = ProgramAdapter(target, space)
    for threshold in THRESHOLDS:
        config = PretunedConfig(similarity=threshold, programs=PROGRAMS)
        starts = PretunedStarts(schedules, target, adapter, config=config).starts(task)
        row[f"starts_{threshold}"] = best_score(model, context, [one.trace for one in starts])
    return row


OWN_LIMIT = 6000
"""Code-size limit of the default search."""


def best_score(model: PretrainedCostModel, context: ms.TuneContext, traces: Sequence[str]) -> float | None:
    """Highest predicted score of programs; None where none is valid."""
    candidates = [found for trace in traces if (found := replay(context, trace)) is not None]
    if not candidates:  # TVM's binding fails for an empty list
        return None
    return float(model.predict(context, candidates).max())


def means(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over the tasks that have a start, by threshold, each beside the others on the same tasks."""
    result: dict[str, Any] = {}
    for threshold in THRESHOLDS:
        name = f"starts_{threshold}"
        kept = [row for row in rows if None not in (row[name], row["random"], row["measured_best"])]
        result[name] = {"share_of_tasks": len(kept) / len(rows), "tasks": len(kept)} | {
            field: float(np.mean([row[field] for row in kept]))
            for field in (name, "random", "measured_best")
            if kept
        }
    return result


if __name__ == "__main__":
    main()
