"""Entry of `python -m benchmarks.sub_space`."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from foretune.inference.fasor.primitives import PRIMITIVES
from foretune.inference.fasor.sub_space import BOUNDS, SHIPPED

from .. import sub_space
from ..common import RESULTS, argument_parser, read_json, start, this_machine, write_json, write_result
from .study import differences, kept, measured_tasks

COUNTS = (5, 6, 7, 8)


def main() -> None:
    parser = argument_parser(sub_space)
    parser.add_argument("--dataset", type=Path, help="folder of a dataset")
    parser.add_argument(
        "--judge", type=Path, help="folder of a dataset whose held-out tasks judge the weights"
    )
    parser.add_argument("--summarise", action="store_true", help="write weights, or the result where judged")
    parser.add_argument("--seconds", type=float, default=200.0, help="time for a dataset (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path("outputs/benchmarks/sub_space"))
    parser.add_argument("--out", type=Path, default=RESULTS, help="(%(default)s)")
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
        folder = write_result(
            "sub_space",
            result,
            begun,
            this_machine(),
            notes="Computed from the records in data/; nothing was timed.",
            results=given.out,
        )
        print(f"wrote {folder}: {result['kept']}")


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
