"""Samplers of tasks and of programs, judged by tuned networks: Table 4 of One-Shot Tuner.

    python -m benchmarks.one_shot_tuner --size 40 --minutes 40
    python -m benchmarks.one_shot_tuner --size 160 --networks resnet18 mobilenetv2 --minutes 600

Tasks are drawn from the prior (PGS), at random or from the zoo, programs on the trajectory of a search (EBS)
or at random. Each of the six pairs measures its own dataset on this machine, and all datasets have the same
number of tasks and programs. A Transformer is trained on each with the same settings, ranks the programs of
`data/networks`, and tunes the networks with One-Shot Tuner's search, which measures a few programs per task.
The tuned networks are timed side by side. No sampled task has a shape of these networks.

The datasets are `data/samplers-*`. They grow in turns, so that a slow hour of the machine affects all of
them, and the same command continues with them. A larger `--size` extends the same datasets. Models and runs
are below `--runs-in`.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from foretune.dataset.records.store import RecordStore

from .checkouts import python_in
from .common import ROOT, argument_parser, in_turns, read_json, start, this_machine
from .kept_runs import KeptRuns, add_options, earlier_result
from .networks import contest

_TASKS = {"pgs": "prior", "random": "uniform", "zoo": "zoo"}
_PROGRAMS = {"ebs": "evolutionary", "random": "random"}

SAMPLERS: Mapping[str, tuple[str, str]] = {
    f"{tasks}_{programs}": (f"task_sampling.sampler={drawn}", f"program_sampling.sampler={sampled}")
    for tasks, drawn in _TASKS.items()
    for programs, sampled in _PROGRAMS.items()
}
"""Overrides of `foretune generate` by the pair, named as in `experiment=one_shot_tuner_samplers`."""

RECORDS_A_TASK = 40

TASKS_A_TURN = 20
"""Tasks by which a dataset grows before the next one's turn."""

SAMPLING = (f"records_per_task={RECORDS_A_TASK}", "task_budget_s=20", "datasheet=false", "seed=51")

TRAINING = (
    *("model=transformer", "target.name=log_score", "loss.rank=0.1", "loss.sigma=10"),
    *("data.batch_size=256", "trainer.max_epochs=30", "trainer.threads=2", "trainer.progress_bar=false"),
)
"""Settings of the shipped Transformers, for fewer records; EBS leaves out slow programs as in the paper."""

SEARCH = (
    *("search=one_shot_tuner", "search/strategy=evolutionary", "search.strategy.population_size=128"),
    *("search.strategy.generations=4", "search.top_k=8"),
)
"""One search and one short validation: with 64 measured programs the model would matter less."""


def growth(tasks: int) -> Iterator[tuple[str, int]]:
    """Pairs with their dataset's number of tasks after a turn; each round begins with the next pair."""
    names = list(SAMPLERS)
    sizes = [*range(TASKS_A_TURN, tasks, TASKS_A_TURN), tasks]
    for number, size in enumerate(sizes):
        for place in range(len(names)):
            yield names[(number + place) % len(names)], size


def sampling(pair: str) -> tuple[str, ...]:
    """Overrides of `foretune generate` for a pair."""
    return (*SAMPLERS[pair], *SAMPLING)


def folder_of(data: Path, pair: str) -> Path:
    """Folder of the dataset of a pair below `data`, as in `data/samplers-pgs-ebs`."""
    return data / f"samplers-{pair.replace('_', '-')}"


def grow(folder: Path, pair: str, tasks: int) -> None:
    """Measures the dataset of a pair up to a number of tasks; existing records are kept.

    Raises CalledProcessError.
    """
    words = [f"dataset={folder}", f"tasks={tasks}", *sampling(pair)]
    python_in(ROOT, ["-m", "foretune", "generate", *words])


def size_of(folder: Path) -> dict[str, int]:
    """Tasks with records and valid records of a dataset; zeros if it does not exist."""
    if not folder.is_dir():
        return {"tasks": 0, "records": 0}
    rows = RecordStore(folder).columns("workload_hash", "failure").to_pylist()
    valid = [row["workload_hash"] for row in rows if row["failure"] is None]
    return {"tasks": len(set(valid)), "records": len(valid)}


def fitted(dataset: Path, folder: Path, judged_on: Path) -> dict[str, Any]:
    """Trains a model on a dataset; returns its ranking of the programs of `judged_on`, and its size.

    The checkpoint is `folder/checkpoint`. Raises CalledProcessError.
    """
    shutil.rmtree(folder, ignore_errors=True)
    words = [f"dataset={dataset}", f"hydra.run.dir={folder}", *TRAINING]
    python_in(ROOT, ["-m", "foretune", "train", *words])
    judged = folder / "evaluation.json"
    words = [f"checkpoint={folder / 'checkpoint'}", f"dataset={judged_on}", f"output={judged}", "part=all"]
    python_in(ROOT, ["-m", "foretune", "evaluate", *words, f"hydra.run.dir={folder / 'evaluation'}"])
    return {**size_of(dataset), "ranking": read_json(judged)["overall"]}


NETWORKS = ("resnet18", "mobilenetv2", "bert_base")
JUDGED_ON = ROOT / "data" / "networks"
MINUTES = 60.0
"""Minutes after which no further step begins, by default."""


def datasets(runs: KeptRuns, data: Path, tasks: int) -> bool:
    """Grows the datasets in turns; returns whether all of them are complete in time."""
    for pair, size in growth(tasks):
        name = f"data-{pair}-{size}"
        if not runs.in_time(name):
            return False
        runs.kept(
            name,
            {"sampling": sampling(pair)},
            partial(_grown, folder_of(data, pair), pair, size),
        )
    return not runs.failures


def _grown(folder: Path, pair: str, tasks: int) -> dict[str, int]:
    grow(folder, pair, tasks)
    found = size_of(folder)
    print(f"{pair}: {found['records']} records of {found['tasks']} tasks", flush=True)
    return found


def models(runs: KeptRuns, data: Path, tasks: int) -> dict[str, Any]:
    """Size of each dataset, and its model's ranking of the programs of networks, by pair of samplers."""
    found = {}
    for pair in SAMPLERS:
        settings = {"sampling": sampling(pair), "training": TRAINING, "tasks": tasks}
        make = partial(fitted, folder_of(data, pair), _model(runs, pair), JUDGED_ON)
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
    if set(found["models"]) == set(SAMPLERS):
        searches = {pair: (*SEARCH, f"checkpoint={_model(runs, pair) / 'checkpoint'}") for pair in SAMPLERS}
        turns = [(network, seed) for seed, network in in_turns(arguments.networks, arguments.runs)]
        found["networks"] = contest.of_networks(runs, turns, searches, arguments.overrides)
    return found


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
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
    runs.write("one_shot_tuner", found, begun, machine)


if __name__ == "__main__":
    main()
