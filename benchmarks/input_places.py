"""Where an input of a nest, as a padded image, is best computed: before it, around its reduction, or within.

Of each recorded task with programs of all three kinds, the best of each is held against that of the others.
The records are of what searches proposed, so that every kind is as good as a model finds it.

    python benchmarks/input_places.py
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from foretune.dataset.drafting.input_places import InputPlace, input_places
from foretune.dataset.drafting.nest import Nest
from foretune.dataset.drafting.read_structure import read_structure
from foretune.dataset.drafting.read_traces import SketchReader
from foretune.dataset.records import Record
from foretune.dataset.store import RecordStore

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "input_places.json"
LEAST = 3
"""Programs of each kind that a task has to have."""
CLEAR = 1.05
"""A kind that is so many times faster than the others is said to be the fastest one."""


def best_of_each(reader: SketchReader, records: Sequence[Record]) -> dict[InputPlace, float] | None:
    """Latency in seconds of the best program of each kind; None where there are too few of one."""
    ran = [record for record in records if math.isfinite(record.latency_s)]
    latencies: dict[InputPlace, list[float]] = {place: [] for place in InputPlace}
    for sketch, values, rows in reader.by_sketch([record.trace for record in ran]):
        if sketch.producers:
            for row, place in zip(rows, input_places(Nest.of(sketch, values)), strict=True):
                latencies[InputPlace(int(place))].append(ran[row].latency_s)
    if min(map(len, latencies.values())) < LEAST:
        return None
    return {place: min(of) for place, of in latencies.items()}


def compared(dataset: Path) -> dict[str, Any]:
    """The tasks of a dataset by operator: how many, and on how many of them each kind is the fastest one."""
    store = RecordStore(dataset).require()
    of_task: defaultdict[str, list[Record]] = defaultdict(list)
    for record in store.records():
        of_task[record.workload_hash].append(record)
    found: defaultdict[str, list[dict[InputPlace, float]]] = defaultdict(list)
    for row in store.tasks():
        reader = SketchReader(read_structure(tvm.ir.load_json(row.tir)))
        if (best := best_of_each(reader, of_task[row.workload_hash])) is not None:
            found[row.operator].append(best)
    every = [best for of in found.values() for best in of]
    return {name: summary(of) for name, of in [*sorted(found.items()), ("all", every)] if of}


def summary(tasks: Sequence[dict[InputPlace, float]]) -> dict[str, Any]:
    """How many tasks, of how many each kind is clearly the fastest, and its speed against the best of all."""
    told: dict[str, Any] = {"tasks": len(tasks)}
    for place in InputPlace:
        ratios = [min(s for other, s in best.items() if other != place) / best[place] for best in tasks]
        told[place.name.lower()] = {
            "fastest": sum(ratio > CLEAR for ratio in ratios),
            "speed_geomean": float(np.exp(np.mean(np.log(np.minimum(ratios, 1.0))))),
        }
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--datasets",
        type=Path,
        nargs="+",
        default=[ROOT / "data" / name for name in ("cpu-proposed", "cpu-last", "cpu-zen3", "cpu-zen5")],
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()

    result = {dataset.name: compared(dataset) for dataset in arguments.datasets}
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
