"""Choice of the tasks to measure next: random tasks, or tasks on which an ensemble disagrees.

    python -m benchmarks.task_selection

Records of a dataset replace measurements. Of the tasks outside the test and the validation, a model knows
some at random and asks for more, as many again each time. Disagreement is the variance of the members'
predictions for the programs of a task, without their records; each member was fitted to two thirds of the
known tasks. Half of the tasks may be random ones, since the tasks on which an ensemble disagrees are alike.
The test uses the mean of the members. A run takes a quarter of an hour on one core.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from foretune.dataset.features.dataset import load_labelled_features
from hydra import initialize_config_module

from ..common import argument_parser, start, this_machine
from ..kept_runs import KeptRuns, add_options
from .study import CHOICES, MEMBERS, SIZES, TRAIN, Parts, rounds, trees

MINUTES = 60.0
"""Minutes after which no further run begins, by default."""


def main() -> None:
    parser = argument_parser(__name__)
    parser.add_argument("--dataset", type=Path, default=Path("data/cpu"), help="(%(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="(%(default)s)")
    add_options(parser, "outputs/benchmarks/task_selection", str(MINUTES), extends=False)
    parser.set_defaults(overrides=list(TRAIN))
    arguments = parser.parse_args()
    begun, runs = start(), KeptRuns(arguments, MINUTES)
    data = load_labelled_features(arguments.dataset)
    parts = Parts.of(data)
    settings = {"dataset": arguments.dataset.name, "sizes": SIZES, "members": MEMBERS, "train": TRAIN}
    found: dict[str, list[Any]] = {choice: [] for choice in CHOICES}
    with initialize_config_module("foretune.conf", version_base="1.3"):
        for seed in range(arguments.seeds):
            for choice in CHOICES:
                name = f"{choice.replace(' ', '-')}-{seed}"
                if not runs.in_time(name):
                    continue
                make = partial(rounds, parts, choice, seed, trees(parts))
                if (curve := runs.kept(name, {**settings, "choice": choice, "seed": seed}, make)) is not None:
                    found[choice].append(curve)
                    last = curve[-1]
                    print(f"{name}: {last['tasks']} tasks, Spearman {last['spearman']:.3f}", flush=True)
    counts = {"pool": len(parts.pool), "validation": len(parts.validation), "test": len(parts.test)}
    result = {"dataset": arguments.dataset.name, "tasks": counts, "curves": found}
    runs.write("task_selection", result, begun, this_machine())


if __name__ == "__main__":
    main()
