"""What a limit on the code of a program saves and costs, on the records of networks that no model has seen.

Every recorded program is replayed for its `code_size`. For each limit: the share of programs above it and of
the time that building took, and how much slower the best program below it is than the best of its task.

    python benchmarks/code_limit.py
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections import defaultdict
from pathlib import Path

import tvm
from foretune.dataset.code_size import code_size
from foretune.dataset.records import Record
from foretune.dataset.replay import replay
from foretune.dataset.store import RecordStore
from foretune.dataset.tvm_compat import make_tune_context, parse_target

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "code_limit.json"
LIMITS = (1000, 2000, 3000, 4000, 6000, 8000, 12000, 16000)


def with_sizes(dataset: Path) -> dict[str, list[tuple[Record, int]]]:
    """The records of each task that replay, with the size of their code."""
    store = RecordStore(dataset).require()
    of_task: defaultdict[str, list[Record]] = defaultdict(list)
    for record in store.records():
        of_task[record.workload_hash].append(record)
    found = {}
    for row in store.tasks():
        records = of_task[row.workload_hash]
        if not any(math.isfinite(record.latency_s) for record in records):
            continue
        target = parse_target(json.loads(records[0].target))
        context = make_tune_context(tvm.ir.load_json(row.tir), target, seed=0)
        replayed = ((record, replay(context, record.trace)) for record in records)
        found[row.workload_hash] = [(r, code_size(c.sch.mod)) for r, c in replayed if c is not None]
    return found


def effect(tasks: dict[str, list[tuple[Record, int]]], limit: int) -> dict[str, float]:
    """Shares that a limit takes off, and slowdowns of the best programs of tasks; inf where none is left."""
    every = [pair for pairs in tasks.values() for pair in pairs]
    above = [record for record, size in every if size > limit]
    slowdowns = [
        min((r.latency_s for r, size in pairs if size <= limit), default=math.inf)
        / min(r.latency_s for r, _ in pairs)
        for pairs in tasks.values()
    ]
    return {
        "programs": len(above) / len(every),
        "build_time": sum(r.build_s for r in above) / sum(r.build_s for r, _ in every),
        "slowdown_geomean": math.exp(statistics.fmean(map(math.log, slowdowns))),
        "slowdown_worst": max(slowdowns),
        "tasks_slowed": sum(slowdown > 1 for slowdown in slowdowns),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", type=Path, default=ROOT / "data" / "networks")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()

    tasks = with_sizes(arguments.dataset)
    result = {
        "dataset": arguments.dataset.name,
        "tasks": len(tasks),
        "programs": sum(map(len, tasks.values())),
        "limits": {limit: effect(tasks, limit) for limit in LIMITS},
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result["limits"], indent=1))
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
