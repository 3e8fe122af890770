"""Entry of `python -m benchmarks.one_shot_tuner`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .. import one_shot_tuner
from ..common import ROOT, argument_parser, in_turns, start, this_machine
from ..kept_runs import KeptRuns, add_options, earlier_result
from ..networks import contest
from . import samplers

NETWORKS = ("resnet18", "mobilenetv2", "bert_base")
JUDGED_ON = ROOT / "data" / "networks"
MINUTES = 60.0
"""Minutes after which no further step begins, by default."""


def datasets(runs: KeptRuns, data: Path, tasks: int) -> bool:
    """Grows the datasets in turns; returns whether all of them are complete in time."""
    for pair, size in samplers.growth(tasks):
        name = f"data-{pair}-{size}"
        if not runs.in_time(name):
            return False
        runs.kept(
            name,
            {"sampling": samplers.sampling(pair)},
            partial(_grown, samplers.folder_of(data, pair), pair, size),
        )
    return not runs.failures


def _grown(folder: Path, pair: str, tasks: int) -> dict[str, int]:
    samplers.grow(folder, pair, tasks)
    found = samplers.size_of(folder)
    print(f"{pair}: {found['records']} records of {found['tasks']} tasks", flush=True)
    return found


def models(runs: KeptRuns, data: Path, tasks: int) -> dict[str, Any]:
    """Size of each dataset, and its model's ranking of the programs of networks, by pair of samplers."""
    found = {}
    for pair in samplers.SAMPLERS:
        settings = {"sampling": samplers.sampling(pair), "training": samplers.TRAINING, "tasks": tasks}
        make = partial(samplers.fitted, samplers.folder_of(data, pair), _model(runs, pair), JUDGED_ON)
        model = runs.kept(f"model-{pair}", settings, make) if runs.in_time(f"model-{pair}") else None
        if model is not None:
            found[pair] = model
            print(f"{pair}: Spearman {model['ranking']['spearman']:.3f} on networks", flush=True)
    return found


def _model(runs: KeptRuns, pair: str) -> Path:
    return runs.folder / "models" / pair


def measured(arguments: argparse.Namespace, runs: KeptRuns) -> dict[str, Any]:
    """Datasets, models, and the networks that the models tune, as far as the time permits."""
    found: dict[str, Any] = {"size": arguments.size, "models": {}, "networks": {}}
    if not datasets(runs, arguments.data, arguments.size):
        return found
    found["models"] = models(runs, arguments.data, arguments.size)
    if set(found["models"]) == set(samplers.SAMPLERS):
        searches = {
            pair: (*samplers.SEARCH, f"checkpoint={_model(runs, pair) / 'checkpoint'}")
            for pair in samplers.SAMPLERS
        }
        turns = [(network, seed) for seed, network in in_turns(arguments.networks, arguments.runs)]
        found["networks"] = contest.of_networks(runs, turns, searches, arguments.overrides)
    return found


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(one_shot_tuner)
    add = parser.add_argument
    add("--size", type=int, default=160, help="tasks of a dataset, each with 40 records (%(default)s)")
    add("--networks", nargs="+", default=NETWORKS, help="(%(default)s)")
    add("--runs", type=int, default=1, help="seeds of each network (%(default)s)")
    add("--data", type=Path, default=ROOT / "data", help="folder of the datasets samplers-* (%(default)s)")
    add_options(parser, "outputs/benchmarks/one_shot_tuner", str(MINUTES))
    add("overrides", nargs="*", metavar="OVERRIDE", help="for every foretune tune, after a --")
    return parser.parse_args(words)


def main() -> None:
    arguments = arguments_of()
    begun, machine = start(), this_machine()
    runs = KeptRuns(arguments, MINUTES, earlier=earlier_result(arguments, "one_shot_tuner", machine))
    found = measured(arguments, runs)
    if not found["networks"]:
        print(f"no network is tuned yet, so that nothing is written: {', '.join(runs.left_out)} is left")
        return
    print(f"wrote {runs.write('one_shot_tuner', found, begun, machine)}")


if __name__ == "__main__":
    main()
