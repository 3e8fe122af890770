"""Primitives that change the memory and core scores, and the loss in the sub-space of the top ones.

    python -m benchmarks.sub_space --dataset data/cpu      # pairs of one dataset; its rows are kept
    python -m benchmarks.sub_space --summarise             # weights, over all kept rows
    python -m benchmarks.sub_space --judge data/cpu        # the result, on held-out tasks

Four fifths of the tasks, by their shapes, determine the weights of Fasor's section 5 (2). Two programs of a
task that differ in only one primitive form a pair. The sensitivity of a score to the primitive is the mean
difference of its logarithm, base 2, over the pairs. The weights go to
`inference/spaces/primitive_weights.json`.

The other tasks judge the sub-space, by n_p: its reduction in size, the share of the measured programs in it,
and the best latency of the task over the best of the programs in it. The same number of randomly drawn
programs of the task serves as the baseline.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from foretune.compiler.counts.program_counts import count_program
from foretune.compiler.counts.traffic import compulsory_bytes
from foretune.compiler.replay import replay
from foretune.compiler.structure.read_spaces import read_spaces
from foretune.compiler.structure.read_structure import read_structure
from foretune.compiler.structure.read_traces import SketchReader
from foretune.compiler.structure.space import SketchSpace
from foretune.compiler.tvm_compat import make_tune_context, parse_target
from foretune.dataset.features.roofline import memory_bound, roofline_scores
from foretune.dataset.hardware import Hardware
from foretune.dataset.records.schema import Record, TaskRow
from foretune.dataset.records.store import RecordStore
from foretune.dataset.records.task_shapes import shape_hash
from foretune.inference.fasor.primitives import PRIMITIVES, narrowed, settings
from foretune.inference.fasor.sub_space import BOUNDS, SHIPPED, top
from numpy.typing import NDArray

from .common import argument_parser, read_json, start, this_machine, write_json, write_result

HELD_OUT = 5
"""One in this number of shapes is held out from the weights."""

PAIRS = 2
"""Most pairs of a task and primitive, so that no task dominates."""


@dataclass(frozen=True)
class Measured:
    """Programs of a task that ran on one device."""

    row: TaskRow
    hardware: Hardware
    records: Sequence[Record]

    @property
    def held_out(self) -> bool:
        """Whether the task is held out for the test."""
        return int(shape_hash(self.row), 16) % HELD_OUT == 0


def measured_tasks(dataset: Path) -> list[Measured]:
    """Tasks of a dataset by device and target."""
    store = RecordStore(dataset).require()
    hardware = store.hardware()
    found: defaultdict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in store.records():
        if record.failure is None and not record.simulated and not record.cut_short:
            found[record.workload_hash, record.hardware_id, record.target].append(record)
    rows = {row.workload_hash: row for row in store.tasks()}
    return [Measured(rows[name], hardware[device], records) for (name, device, _), records in found.items()]


def pairs_of(traces: Sequence[str], reader: SketchReader, rng: np.random.Generator) -> dict[str, Any]:
    """Numbers of up to PAIRS pairs of programs by the one primitive that they differ in."""
    known: dict[int, dict[str, Any]] = {}
    for sketch, values, numbers in reader.group_by_sketch(traces):
        for row, number in zip(values, numbers, strict=True):
            known[number] = settings(sketch, row)
    found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for one, other in combinations(sorted(known), 2):
        different = [name for name in PRIMITIVES if known[one][name] != known[other][name]]
        # A location also changes with inlining.
        if different == ["compute_at", "compute_inline"]:
            different = ["compute_inline"]
        if len(different) == 1:
            found[different[0]].append((one, other))
    return {name: [of[number] for number in rng.permutation(len(of))[:PAIRS]] for name, of in found.items()}


def differences(task: Measured, rng: np.random.Generator) -> Iterator[tuple[str, float, float]]:
    """Yields for each pair its primitive and the differences of log2 memory and core score."""
    mod = tvm.ir.load_json(task.row.tir)
    chosen = pairs_of([r.trace for r in task.records], SketchReader(read_structure(mod)), rng)
    if not chosen:
        return
    context = make_tune_context(mod, parse_target(task.records[0].target), seed=0)
    scores: dict[int, tuple[float, float] | None] = {}
    for number in {number for of in chosen.values() for pair in of for number in pair}:
        program = replay(context, task.records[number].trace)
        scores[number] = None if program is None else _scores(program.sch.mod, task, task.records[number])
    for name, of in chosen.items():
        for one, other in of:
            left, right = scores[one], scores[other]
            if left is not None and right is not None:
                memory, core = np.abs(np.log2(left) - np.log2(right))
                yield name, float(memory), float(core)


def _scores(mod: tvm.IRModule, task: Measured, record: Record) -> tuple[float, float] | None:
    counts = count_program(mod, task.hardware, task.row.flops)
    found = roofline_scores(
        [record.latency_s], [counts.instructions], [counts.moved_bytes], task.hardware.features()
    )
    memory, core = float(found.memory[0]), float(found.core[0])
    return (memory, core) if memory > 0 and core > 0 else None


# -- what sub-spaces keep


def bound_of(task: Measured, mod: tvm.IRModule) -> str:
    """Side of the roofline's ridge on which the task lies."""
    return BOUNDS[0 if memory_bound(task.row.flops, compulsory_bytes(mod), task.hardware) else 1]


def kept(
    task: Measured, weights: dict[str, dict[str, float]], counts: Sequence[int], rng: np.random.Generator
) -> dict[str, list[float]]:
    """By n_p: [space size over the whole, share of programs inside, best kept, best of as many random ones].

    The best kept is 0 if no program is inside.
    """
    mod = tvm.ir.load_json(task.row.tir)
    structure = read_structure(mod)
    context = make_tune_context(mod, parse_target(task.records[0].target), seed=0)
    spaces = read_spaces(context, structure, task.row.name)
    latencies_s = np.array([record.latency_s for record in task.records])
    weight = weights[bound_of(task, mod)]
    reader = SketchReader(structure)
    read = list(reader.group_by_sketch([record.trace for record in task.records]))
    found = {}
    for count in counts:
        inner = narrowed(spaces, frozenset(PRIMITIVES) - top(weight, count))
        inside = np.zeros(len(latencies_s), dtype=np.bool_)
        for sketch, values, numbers in read:
            for space in inner:
                if space.sketch.instructions == sketch.instructions:
                    inside[numbers] = _inside(space, values)
        size = sum(space.size for space in inner) / max(sum(space.size for space in spaces), 1.0)
        best = latencies_s.min()
        own = best / latencies_s[inside].min() if inside.any() else 0.0
        found[str(count)] = [size, float(inside.mean()), own, at_random(latencies_s, int(inside.sum()), rng)]
    return found


def _inside(space: SketchSpace, values: NDArray[np.int64]) -> NDArray[np.bool_]:
    mask = np.ones(len(values), dtype=np.bool_)
    for decision, table in zip(space.sketch.decisions, space.domains, strict=True):
        known = {tuple(row) for row in table.tolist()}
        part = values[:, decision.column : decision.column + decision.width].tolist()
        mask &= np.array([tuple(row) in known for row in part])
    return mask


def at_random(
    latencies_s: NDArray[np.float64], count: int, rng: np.random.Generator, draws: int = 20
) -> float:
    """Mean of the best latency over the best of `count` random programs; 0 without programs."""
    if count == 0:
        return 0.0
    best = latencies_s.min()
    return float(np.mean([best / rng.choice(latencies_s, count, replace=False).min() for _ in range(draws)]))


COUNTS = (5, 6, 7, 8)


def main() -> None:
    parser = argument_parser(__name__)
    parser.add_argument("--dataset", type=Path, help="folder of a dataset")
    parser.add_argument(
        "--judge", type=Path, help="folder of a dataset whose held-out tasks judge the weights"
    )
    parser.add_argument("--summarise", action="store_true", help="write weights, or the result where judged")
    parser.add_argument("--seconds", type=float, default=200.0, help="time for a dataset (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path("outputs/benchmarks/sub_space"))
    parser.add_argument("--weights", type=Path, default=SHIPPED, help="(%(default)s)")
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    if given.dataset is not None:
        rows, tasks = collected(given.dataset, given.seconds, rng)
        write_json(given.work / f"pairs-{given.dataset.name}.json", {"tasks": tasks, "pairs": rows})
        print(f"{given.dataset}: {len(rows)} pairs of {tasks} tasks")
    if given.summarise:
        pairs = [row for path in sorted(given.work.glob("pairs-*.json")) for row in read_json(path)["pairs"]]
        given.weights.write_text(json.dumps(weights_of(pairs), indent=2) + "\n", encoding="utf-8")
        print(f"wrote {given.weights} from {len(pairs)} pairs")
    if given.judge is not None:
        judged = judged_rows(given.judge, read_json(given.weights), given.seconds, rng)
        write_json(given.work / f"kept-{given.judge.name}.json", judged)
    if given.judge is not None or given.summarise:
        begun = start()
        result = summary(
            read_json(given.weights),
            {path.stem[6:]: read_json(path) for path in sorted(given.work.glob("pairs-*.json"))},
            {path.stem[5:]: read_json(path) for path in sorted(given.work.glob("kept-*.json"))},
        )
        write_result(
            "sub_space",
            result,
            begun,
            this_machine(),
            notes="Computed from the records in data/; nothing was timed.",
            results=given.out,
        )
        print(result["kept"])


def collected(dataset: Path, seconds: float, rng: np.random.Generator) -> tuple[list[list[Any]], int]:
    """Pairs of tasks for the weights, in random order within the time, and the number of tasks read."""
    tasks = [task for task in measured_tasks(dataset) if not task.held_out]
    until = time.monotonic() + seconds
    rows: list[list[Any]] = []
    for done, number in enumerate(rng.permutation(len(tasks))):
        if time.monotonic() > until:
            return rows, done
        rows += [list(row) for row in differences(tasks[number], rng)]
    return rows, len(tasks)


def weights_of(pairs: Sequence[Sequence[Any]]) -> dict[str, dict[str, float]]:
    """Mean difference of each score by primitive; 0 for a primitive without a pair."""
    by_name: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for name, memory, core in pairs:
        by_name[name].append((memory, core))
    return {
        bound: {
            name: round(float(np.mean([pair[column] for pair in by_name[name]])), 4) if by_name[name] else 0.0
            for name in PRIMITIVES
        }
        for column, bound in enumerate(BOUNDS)
    }


def judged_rows(
    dataset: Path, weights: dict[str, dict[str, float]], seconds: float, rng: np.random.Generator
) -> list[dict[str, list[float]]]:
    """Shares of held-out tasks that sub-spaces keep, in random order within the time."""
    tasks = [task for task in measured_tasks(dataset) if task.held_out and len(task.records) >= 8]
    until = time.monotonic() + seconds
    rows = []
    for number in rng.permutation(len(tasks)):
        if time.monotonic() > until:
            break
        rows.append(kept(tasks[number], weights, COUNTS, rng))
    return rows


def summary(
    weights: dict[str, dict[str, float]],
    pairs: dict[str, dict[str, Any]],
    judged: dict[str, list[dict[str, list[float]]]],
) -> dict[str, Any]:
    """Weights with their pairs, and means over the held-out tasks by n_p."""
    all_pairs = [row[0] for of in pairs.values() for row in of["pairs"]]
    rows = [row for of in judged.values() for row in of]
    return {
        "weights": weights,
        "pairs": {name: all_pairs.count(name) for name in PRIMITIVES},
        "weight_tasks": {name: of["tasks"] for name, of in pairs.items()},
        "judged_tasks": {name: len(of) for name, of in judged.items()},
        "kept": {str(count): means([row[str(count)] for row in rows]) for count in COUNTS if rows},
    }


def means(rows: Sequence[Sequence[float]]) -> dict[str, float]:
    """Means over tasks; sizes as geometric means, the best kept over tasks with a program inside."""
    size, programs, best, chance = np.array(rows, dtype=np.float64).T
    held = best > 0
    return {
        "tasks": len(rows),
        "tasks_inside": int(held.sum()),
        "size": float(np.exp(np.log(size).mean())),
        "programs": float(programs.mean()),
        "best_kept": float(best[held].mean()) if held.any() else 0.0,
        "best_at_random": float(chance[held].mean()) if held.any() else 0.0,
    }


if __name__ == "__main__":
    main()
