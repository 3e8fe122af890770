"""Entry of `python -m benchmarks.explorer`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from foretune.compiler.replay import replay
from foretune.compiler.tvm_compat import make_tune_context, parse_target
from foretune.dataset.features.recorded_spaces import RecordedSpace
from foretune.dataset.records.schema import TaskRow
from foretune.dataset.records.stored_tasks import stored_rows, stored_task
from foretune.inference.search.cost_model import PretrainedCostModel
from foretune.models.checkpoints.checkpoint import load_explorer
from foretune.training.exploration.config import JudgingConfig, ReinforceConfig
from foretune.training.exploration.environment import Environment
from foretune.training.exploration.tasks import load_tasks, task_space

from .. import explorer as benchmark
from ..common import RESULTS, argument_parser, start, this_machine, write_result
from .recorded import recorded_scores
from .searches import Searches

PARTS = ("test", "unseen_operators")
DATASETS = ("cpu", "cpu-zen3", "cpu-zen5")


def main() -> None:
    parser = argument_parser(benchmark)
    parser.add_argument("--data", type=Path, default=Path("data"), help="(%(default)s)")
    parser.add_argument("--explorer", default="cpu-explorer", help="(%(default)s)")
    parser.add_argument("--environment", default="cpu-draft", help="(%(default)s)")
    parser.add_argument("--judge", default="cpu", help="store-level cost model (%(default)s)")
    parser.add_argument("--tasks", type=int, default=40, help="sketches of each part (%(default)s)")
    parser.add_argument("--candidates", type=int, default=64, help="programs rated (%(default)s)")
    parser.add_argument("--recorded", type=int, default=12, help="recorded programs taken (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS, help="(%(default)s)")
    given = parser.parse_args()
    begun = start()
    result = compared([given.data / name for name in DATASETS], given)
    folder = write_result(
        "explorer",
        result,
        begun,
        this_machine(),
        notes="Predicted by cost models, and replayed from the records in data/; nothing was timed.",
        results=given.out,
    )
    print(f"wrote {folder}")
    for part, rows in result["means"].items():
        print(part, rows)


def compared(folders: Sequence[Path], given: argparse.Namespace) -> dict[str, Any]:
    """Rows of the held-out sketches, and their means by part and method."""
    environment, judge_of = Environment.load(given.environment)
    explorer, card = load_explorer(given.explorer)
    config = ReinforceConfig(
        dataset=list(folders),
        run_dir=Path("unused"),
        checkpoint_dir=Path("unused"),
        tasks=1,
        test_operators=card.split.config["test_operators"],
        judging=JudgingConfig(spaces=given.tasks),
        seed=given.seed,
    )
    tasks = load_tasks(config, judge_of.card.split)
    taught = {*card.split.train_tasks, *card.split.validation_tasks}
    rows = {row.workload_hash: row for folder in folders for row in stored_rows(folder)}
    found: list[dict[str, Any]] = []
    for part in PARTS:
        spaces = [one for one in tasks.part(part) if one.workload_hash not in taught]
        order = np.random.default_rng(given.seed).permutation(len(spaces))[: given.tasks]
        for number in order:
            one = spaces[int(number)]
            searches = Searches(
                environment, explorer, task_space(one), given.candidates, (given.seed, int(number))
            )
            row = {"part": part, "workload_hash": one.workload_hash, "operator": one.operator}
            row |= scores(one, searches, rows[one.workload_hash], given.judge)
            row["recorded"] = recorded_scores(
                one, environment, explorer, given.recorded, (given.seed, int(number))
            )
            found.append(row)
            print({key: row[key] for key in ("part", "operator", "score")}, flush=True)
    return {
        **{name: getattr(given, name) for name in ("environment", "judge", "candidates", "recorded")},
        "explorer_weights_sha256": card.weights_sha256,
        "means": means(found),
        "tasks": found,
    }


def scores(one: RecordedSpace, searches: Searches, row: TaskRow, judge: str) -> dict[str, Any]:
    """Best predicted score of each search, and the judge's score of its program, None if it is invalid."""
    visited = searches.all()
    traces = [one.space.traces(of.best(1))[0] for of in visited.values()]
    task = stored_task(row)
    target = parse_target({"kind": "llvm", "num-cores": one.hardware.cores})
    context = make_tune_context(task.mod, target, seed=0, name=task.name, threads=1)
    candidates = [replay(context, trace) for trace in traces]
    valid = [candidate for candidate in candidates if candidate is not None]
    predicted: list[float] = []
    if valid:  # TVM's binding fails for an empty list
        predicted = PretrainedCostModel.load(judge, one.hardware).predict(context, valid).tolist()
    judged = iter(predicted)
    return {
        "score": {method: float(np.exp(-of.time.min())) for method, of in visited.items()},
        "judged": {
            method: None if candidate is None else next(judged)
            for method, candidate in zip(visited, candidates, strict=True)
        },
    }


def means(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over the sketches of each part, by measure and method, if all searches have a value."""
    result: dict[str, Any] = {}
    for part in PARTS:
        of_part = [row for row in rows if row["part"] == part]
        result[part] = {"sketches": len(of_part)}
        for measure in ("score", "judged", "recorded"):
            kept = [row[measure] for row in of_part if row[measure] and None not in row[measure].values()]
            result[part][measure] = {"sketches": len(kept)} | {
                method: float(np.mean([row[method] for row in kept])) for method in (kept[0] if kept else ())
            }
    return result


if __name__ == "__main__":
    main()
