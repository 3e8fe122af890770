"""Where an input of a nest, such as a padded image, is best computed: in full before it, or within its loops.

Of each recorded task with programs of both kinds, the best of one kind is held against the best of the other.
The records are of what searches proposed, so that both kinds are as good as a model finds them.

    python benchmarks/input_places.py
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

import tvm
from foretune.dataset.drafting.read_structure import read_structure
from foretune.dataset.drafting.read_traces import SketchReader
from foretune.dataset.drafting.sketch import AT_ROOT
from foretune.dataset.records import Record
from foretune.dataset.store import RecordStore

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "input_places.json"
LEAST = 3
"""Programs of each kind that a task has to have."""
CLEAR = 1.05
"""A kind that is so many times faster is said to be the faster one."""


def best_of_both(reader: SketchReader, records: list[Record]) -> tuple[float, float] | None:
    """Latency in seconds of the best program within the loops and of the best before them."""
    latencies: dict[bool, list[float]] = {False: [], True: []}
    for record in records:
        try:
            sketch, values = reader.read(record.trace)
        except (ValueError, KeyError, IndexError, TypeError):  # of a sketch that cannot be followed
            continue
        columns = [sketch.decisions[number].column for _, number in sketch.producers]
        if columns and math.isfinite(record.latency_s):
            latencies[any(values[column] == AT_ROOT for column in columns)].append(record.latency_s)
    within, before = latencies[False], latencies[True]
    return (min(within), min(before)) if min(len(within), len(before)) >= LEAST else None


def compared(dataset: Path) -> dict[str, Any]:
    """The tasks of a dataset by operator: how many, and on how many of them either kind is the faster one."""
    store = RecordStore(dataset).require()
    of_task: defaultdict[str, list[Record]] = defaultdict(list)
    for record in store.records():
        of_task[record.workload_hash].append(record)
    ratios: defaultdict[str, list[float]] = defaultdict(list)
    for row in store.tasks():
        reader = SketchReader(read_structure(tvm.ir.load_json(row.tir)))
        if (best := best_of_both(reader, of_task[row.workload_hash])) is not None:
            ratios[row.operator].append(best[1] / best[0])
    every = [ratio for of in ratios.values() for ratio in of]
    return {name: summary(of) for name, of in [*sorted(ratios.items()), ("all", every)] if of}


def summary(ratios: list[float]) -> dict[str, float]:
    return {
        "tasks": len(ratios),
        "within_faster": sum(ratio > CLEAR for ratio in ratios),
        "before_faster": sum(ratio < 1 / CLEAR for ratio in ratios),
        "speed_within_geomean": math.exp(statistics.fmean(map(math.log, ratios))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--datasets",
        type=Path,
        nargs="+",
        default=[ROOT / "data" / name for name in ("cpu-proposed", "cpu-last")],
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()

    result = {dataset.name: compared(dataset) for dataset in arguments.datasets}
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
