"""Do the cost functions of ETO's section 5.1 order programs as a GPU's clock does?

    python -m benchmarks.gpu_costs

The pairs are programs of one task that were measured on a GPU (`data/gpu`, `data/gpu-networks`) and differ by
5 % or more. The benchmark counts how often the faster program has the lower cost of BShape or TShape. ETO
compares BShapes with equal numbers of blocks, and TShapes also with equal numbers of threads. Nothing is
measured here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from foretune.compiler.structure.read_structure import read_structure
from foretune.compiler.structure.read_traces import SketchReader
from foretune.dataset.records.schema import Record
from foretune.dataset.records.store import RecordStore
from foretune.dataset.records.stored_tasks import stored_task

from .common import ROOT, argument_parser, start, this_machine, write_result
from .cuda_emulation.costs import TileCosts, tile_costs

DATASETS = (ROOT / "data" / "gpu", ROOT / "data" / "gpu-networks")

COSTS = ("lines", "lines_by_fetch", "shared")
"""BShape cost, lines of each fetch, and TShape cost, each of all blocks of a program."""

LEAST_DIFFERENCE = 1.05
"""Ratio of two latencies from which they count as different: nine tenths of repeats are within it."""


class Measured(NamedTuple):
    """A program with its costs."""

    latency_s: float
    costs: TileCosts


ALIKE: Mapping[str, Callable[[TileCosts, TileCosts], bool]] = {
    "any": lambda one, other: True,
    "blocks": lambda one, other: one.blocks == other.blocks,
    "threads": lambda one, other: (one.blocks, one.threads) == (other.blocks, other.threads),
}
"""Properties that the programs of a pair share."""


def programs_of(dataset: Path) -> Iterator[list[Measured]]:
    """Measured programs of each task in a dataset, without programs that ETO's costs do not cover."""
    store = RecordStore(dataset).require()
    records: defaultdict[str, list[Record]] = defaultdict(list)
    for record in store.records():
        if record.failure is None and not (record.cut_short or record.simulated):
            records[record.workload_hash].append(record)
    for row in store.tasks():
        reader = SketchReader(read_structure(stored_task(row).mod))
        found = []
        for record in records[row.workload_hash]:
            try:
                costs = tile_costs(*reader.read(record.trace))
            except ValueError:
                continue
            found.append(Measured(record.latency_s, costs))
        yield found


def ordered(tasks: Sequence[Sequence[Measured]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Pairs, and pairs whose faster program has the lower cost, by shared properties and by cost.

    Pairs of equal costs are left out.
    """
    pairs: Counter[tuple[str, str]] = Counter()
    right: Counter[tuple[str, str]] = Counter()
    for programs in tasks:
        for slow, fast in (
            sorted(pair, key=lambda one: -one.latency_s) for pair in combinations(programs, 2)
        ):
            if slow.latency_s < LEAST_DIFFERENCE * fast.latency_s:
                continue
            for alike, are_alike in ALIKE.items():
                for cost in COSTS if are_alike(slow.costs, fast.costs) else ():
                    high, low = (getattr(one.costs, cost) * one.costs.blocks for one in (slow, fast))
                    pairs[alike, cost] += high != low
                    right[alike, cost] += high > low
    return {
        alike: {cost: {"pairs": pairs[alike, cost], "right": right[alike, cost]} for cost in COSTS}
        for alike in ALIKE
    }


def main() -> None:
    parser = argument_parser(__name__)
    parser.add_argument("--datasets", nargs="+", type=Path, default=DATASETS, help="with records of one GPU")
    arguments = parser.parse_args()
    begun = start()
    tasks = [programs for dataset in arguments.datasets for programs in programs_of(dataset) if programs]
    folders = [str(path).removeprefix(f"{ROOT}/") for path in arguments.datasets]
    counted = {"tasks": len(tasks), "programs": sum(map(len, tasks))}
    result = {"datasets": folders, **counted, "ordered": ordered(tasks)}
    print(result)
    write_result("gpu_costs", result, begun, this_machine(), results=arguments.out)


if __name__ == "__main__":
    main()
