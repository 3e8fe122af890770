"""Datasets from the six pairs of samplers, and a model trained on each."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from foretune.dataset.records.store import RecordStore

from ..checkouts import python_in
from ..common import ROOT, read_json

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
