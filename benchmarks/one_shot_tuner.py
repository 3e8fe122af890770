"""Samplers of tasks and of programs, judged by tuned networks: Table 4 of One-Shot Tuner.

    python -m benchmarks.one_shot_tuner --size 160 --minutes 600 --keep
    python -m benchmarks.one_shot_tuner --pairs pgs_ebs pgs_pretrained pgs_random --minutes 300 --keep

Tasks are drawn from the prior (PGS), at random or from the zoo. Programs are drawn at random, or on the
trajectory of a search (EBS) in ten rounds of four, so that nine rounds are guided by the programs of the
earlier ones. In a second variant of EBS the shipped cost model guides the search, in all ten rounds. Each
pair measures its own dataset on this machine, and all datasets have the same number of tasks and
programs. For each seed, a Transformer is trained on each with the same settings, ranks the programs of
`data/networks`, and tunes the networks with One-Shot Tuner's search, which measures a few programs per
task. The tuned networks are timed side by side. The result counts the guided programs, and the tasks with
a shape of these networks.

By estimate, a guided dataset of 160 tasks takes 80 minutes, a model 5, and a network a minute for each pair.
The datasets are `samplers-*` in `--data`. They grow in turns, so that a slow hour of the machine
affects all of them, and the same command continues with them. A larger `--size` extends the same datasets.
Models and runs are below `--runs-in`.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from foretune.compiler.networks import extract_tasks, load_network, to_relax
from foretune.compiler.tvm_compat import parse_target
from foretune.dataset.records.store import RecordStore
from foretune.dataset.records.stored_tasks import task_row
from foretune.dataset.records.task_shapes import shape_hash

from .checkouts import python_in
from .common import ROOT, argument_parser, in_turns, read_json, start, this_machine
from .kept_runs import KeptRuns, add_options, earlier_result
from .networks import contest

_TASKS = {"pgs": "prior", "random": "uniform", "zoo": "zoo"}

PER_ROUND = 4
"""Programs of a guided round: with ten rounds a task, nine follow measured programs of the task."""

_GUIDED = (
    "program_sampling.sampler=evolutionary",
    "program_sampling.random_share=0",
    f"per_round={PER_ROUND}",
)

_PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "ebs": _GUIDED,
    "pretrained": (*_GUIDED, "program_sampling.scorer=cpu"),
    "random": ("program_sampling.sampler=random",),
}

SAMPLERS: Mapping[str, tuple[str, ...]] = {
    f"{tasks}_{programs}": (f"task_sampling.sampler={drawn}", *sampled)
    for tasks, drawn in _TASKS.items()
    for programs, sampled in _PROGRAMS.items()
}
"""Overrides of `foretune generate` by the pair."""

BASE = "pgs_ebs"
"""The paper's pair."""

RECORDS_A_TASK = 40

TASKS_A_TURN = 20
"""Tasks by which a dataset grows before the next one's turn."""

SAMPLING = (f"records_per_task={RECORDS_A_TASK}", "task_budget_s=120", "datasheet=false", "seed=51")

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


def growth(tasks: int, pairs: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Pairs with their dataset's number of tasks after a turn; each round begins with the next pair."""
    sizes = [*range(TASKS_A_TURN, tasks, TASKS_A_TURN), tasks]
    for number, pair in in_turns(pairs, len(sizes)):
        yield pair, sizes[number]


def sampling(pair: str) -> tuple[str, ...]:
    """Overrides of `foretune generate` for a pair."""
    return (*SAMPLERS[pair], *SAMPLING)


def folder_of(data: Path, pair: str) -> Path:
    """Folder of the dataset of a pair below `data`, as in `data/samplers-pgs-ebs-4`.

    Guided datasets have the size of a round in their names: `data/samplers-*-ebs` has rounds of 20.
    """
    rounds = "" if pair.endswith("_random") else f"-{PER_ROUND}"
    return data / f"samplers-{pair.replace('_', '-')}{rounds}"


def grow(folder: Path, pair: str, tasks: int) -> None:
    """Measures the dataset of a pair up to a number of tasks; existing records are kept.

    Raises CalledProcessError.
    """
    words = [f"dataset={folder}", f"tasks={tasks}", *sampling(pair)]
    python_in(ROOT, ["-m", "foretune", "generate", *words])


def size_of(folder: Path) -> dict[str, int]:
    """Tasks with valid records, valid records, and guided programs of a dataset; zeros if it does not exist.

    A program is guided if a search proposed it with a model that had learned: XGBoost rates the first round
    of a task at random. A search that finds too few new programs fills its round at random, which no record
    tells.
    """
    if not folder.is_dir():
        return {"tasks": 0, "records": 0, "guided": 0}
    rows = RecordStore(folder).columns("workload_hash", "failure", "sampler", "round").to_pylist()
    valid = [row["workload_hash"] for row in rows if row["failure"] is None]
    guided = sum(
        row["sampler"].startswith("evolutionary/") and (row["round"] > 0 or "xgboost" not in row["sampler"])
        for row in rows
    )
    return {"tasks": len(set(valid)), "records": len(valid), "guided": guided}


def shared_tasks(folder: Path, networks: Sequence[str]) -> int:
    """Number of tasks of a dataset that have a shape of the networks."""
    target = parse_target("llvm")
    shapes = {
        shape_hash(task_row(task))
        for network in networks
        for task in extract_tasks(to_relax(load_network(network), target), target, network)
    }
    return sum(shape_hash(row) in shapes for row in RecordStore(folder).tasks())


def fitted(dataset: Path, folder: Path, judged_on: Path, seed: int) -> dict[str, float]:
    """Trains a model on a dataset; returns its ranking of the programs of `judged_on`.

    The checkpoint is `folder/checkpoint`. Raises CalledProcessError.
    """
    shutil.rmtree(folder, ignore_errors=True)
    words = [f"dataset={dataset}", f"hydra.run.dir={folder}", *TRAINING, f"seed={seed}"]
    python_in(ROOT, ["-m", "foretune", "train", *words])
    judged = folder / "evaluation.json"
    words = [f"checkpoint={folder / 'checkpoint'}", f"dataset={judged_on}", f"output={judged}", "part=all"]
    python_in(ROOT, ["-m", "foretune", "evaluate", *words, f"hydra.run.dir={folder / 'evaluation'}"])
    return read_json(judged)["overall"]


NETWORKS = ("resnet18", "mobilenetv2", "efficientnet_b0")
JUDGED_ON = ROOT / "data" / "networks"
MINUTES = 60.0
"""Minutes after which no further step begins, by default."""


def datasets(runs: KeptRuns, arguments: argparse.Namespace) -> bool:
    """Grows the datasets in turns; returns whether all of them are complete in time."""
    turns = list(growth(arguments.size, arguments.pairs))
    runs.progress.expect(len(turns))
    for pair, size in turns:
        name = f"data-{pair}-{size}"
        if not runs.in_time(name):
            return False
        make = partial(_grown, folder_of(arguments.data, pair), pair, size)
        runs.kept(name, {"sampling": sampling(pair)}, make)
    return not runs.failures


def _grown(folder: Path, pair: str, tasks: int) -> dict[str, int]:
    grow(folder, pair, tasks)
    found = size_of(folder)
    print(
        f"{pair}: {found['records']} records of {found['tasks']} tasks, {found['guided']} guided", flush=True
    )
    return found


def models(runs: KeptRuns, arguments: argparse.Namespace) -> dict[str, Any]:
    """Size of each dataset by pair, with the ranking of its models, mean over seeds, of networks' programs.

    A pair is missing if a model of it is.
    """
    rankings: dict[str, list[Any]] = {pair: [] for pair in arguments.pairs}
    runs.progress.expect(arguments.runs * len(arguments.pairs))
    for seed, pair in in_turns(arguments.pairs, arguments.runs):
        name, folder = f"model-{pair}-{seed}", folder_of(arguments.data, pair)
        settings = {"sampling": sampling(pair), "training": TRAINING, "tasks": arguments.size}
        model = _model(runs, pair, seed)
        make = partial(fitted, folder, model, JUDGED_ON, seed)
        found = runs.kept(name, settings, make) if runs.in_time(name) else None
        if found is not None:
            rankings[pair].append(found)
            print(f"{pair}, seed {seed}: Spearman {found['spearman']:.3f} on networks", flush=True)
    return {
        pair: {
            **size_of(folder_of(arguments.data, pair)),
            "shared_tasks": shared_tasks(folder_of(arguments.data, pair), arguments.networks),
            "ranking": {name: statistics.fmean(one[name] for one in found) for name in ("spearman", "top_1")},
        }
        for pair, found in rankings.items()
        if len(found) == arguments.runs
    }


def _model(runs: KeptRuns, pair: str, seed: int) -> Path:
    return runs.folder / "models" / f"{pair}-{seed}"


def measured(arguments: argparse.Namespace, runs: KeptRuns) -> dict[str, Any]:
    """Datasets, models, and the networks that the models tune, as far as the time permits."""
    found: dict[str, Any] = {"size": arguments.size, "models": {}, "networks": {}}
    if not datasets(runs, arguments):
        return found
    found["models"] = models(runs, arguments)

    def searches(seed: int) -> dict[str, tuple[str, ...]]:
        return {
            pair: (*SEARCH, f"checkpoint={_model(runs, pair, seed) / 'checkpoint'}")
            for pair in arguments.pairs
        }

    if set(found["models"]) == set(arguments.pairs):
        turns = [(network, seed) for seed, network in in_turns(arguments.networks, arguments.runs)]
        found["networks"] = contest.of_networks(runs, turns, searches, arguments.overrides)
    return found


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__name__)
    add = parser.add_argument
    add("--size", type=int, default=160, help="tasks of a dataset, each with 40 records (%(default)s)")
    add("--networks", nargs="+", default=NETWORKS, help="(%(default)s)")
    add("--pairs", nargs="+", choices=SAMPLERS, default=list(SAMPLERS), help=f"with {BASE} (all)")
    add("--runs", type=int, default=3, help="seeds of the models and searches (%(default)s)")
    add("--data", type=Path, default=ROOT / "data", help="folder of the datasets samplers-* (%(default)s)")
    add_options(parser, "outputs/benchmarks/one_shot_tuner", str(MINUTES))
    add("overrides", nargs="*", metavar="OVERRIDE", help="for every foretune tune, after a --")
    arguments = parser.parse_args(words)
    arguments.pairs = list(dict.fromkeys([BASE, *arguments.pairs]))
    return arguments


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
