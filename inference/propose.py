"""`foretune-propose`: what a search would measure, written down unmeasured, for a dataset to train on.

Programs on the trajectory of a search that learns as it goes (One-Shot Tuner section 4.1.2) are not those
that a search through thousands with a frozen model ends at, which are what the model overrates. Measured and
trained on, they tell it so. They go into a MetaSchedule database, which `foretune-generate` measures.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import hydra
from omegaconf import DictConfig
from rich.console import Console
from tvm.s_tir import meta_schedule as ms

from ..configuration import from_hydra
from ..dataset.exchange import HERE, RECORD_FILE, database_folder_name, find_hardware
from ..dataset.features import FEATURE_VERSION
from ..dataset.measure.process import WorkerGone
from ..dataset.progress import job_progress
from ..dataset.records import TaskRow
from ..dataset.stored_tasks import stored_rows, stored_task
from ..dataset.task import Task
from ..dataset.tvm_compat import parse_target, target_to_json
from ..errors import UserError, exits_cleanly
from ..models.checkpoint import load_checkpoint
from .search_config import OneShotConfig
from .search_process import task_to_json
from .searchers import Searcher, replied, start_searchers
from .tuning_database import opened_database, write_records

TAKEN_FILE = "foretune_proposed.json"
"""One line of JSON for each task that was searched: `workload` and how many `programs` it brought."""


class ProposeConfigError(UserError, ValueError):
    """A setting of the proposals cannot be."""


@dataclass(frozen=True)
class ProposeConfig:
    """What to search; the fields are those of conf/propose.yaml."""

    dataset: Path
    database: Path
    checkpoint: str = "cpu"
    target: Any = "llvm"
    hardware: str = HERE
    tasks: int = 100
    seed: int = 0
    search: OneShotConfig = field(default_factory=lambda: OneShotConfig(rounds=1, choice=1))

    def __post_init__(self) -> None:
        if self.tasks < 1:
            raise ProposeConfigError(f"tasks={self.tasks}: must be at least 1")
        for name, only in (("rounds", 1), ("extra_rounds", 0), ("choice", 1)):
            if (value := getattr(self.search, name)) != only:
                raise ProposeConfigError(
                    f"search.{name}={value}: rounds after the first and a choice among proposals follow what "
                    f"was measured, and nothing is; leave it at {only}"
                )


@dataclass
class ProposeSummary:
    """What a run did; `without` counts tasks whose search proposed nothing."""

    folder: Path
    tasks: int = 0
    programs: int = 0
    known: int = 0
    without: int = 0


def run(config: ProposeConfig, console: Console | None = None) -> ProposeSummary:
    """Searches tasks of a dataset and writes the programs found. Raises UserError."""
    console = console or Console()
    target = parse_target(config.target)
    held_out = load_checkpoint(config.checkpoint, feature_version=FEATURE_VERSION).card.split.test_tasks
    tasks = chosen_tasks(stored_rows(config.dataset), held_out, config.tasks, config.seed)
    if not tasks:
        raise ProposeConfigError(
            f"dataset={config.dataset}: checkpoint={config.checkpoint} holds out every task of it for tests; "
            "name a dataset with others"
        )
    hardware = find_hardware(config.hardware, target)
    folder = config.database / database_folder_name(target_to_json(target), hardware.hardware_id)
    database, done = _opened(folder)
    summary = ProposeSummary(folder)
    left = [stored_task(row) for row in tasks if row.workload_hash not in done]
    summary.known = len(tasks) - len(left)
    with ExitStack() as stack:
        searchers = start_searchers(config.search, target, config.checkpoint, hardware, nice=False)
        for searcher in searchers:
            stack.callback(searcher.close)
        progress = stack.enter_context(job_progress(console))
        bar = progress.add_task("propose", total=len(tasks), completed=summary.known)
        for task, records in searched(left, searchers):
            write_records(database, target, task, [(record, None) for record in records])
            _note(folder / TAKEN_FILE, task, len(records))
            summary.tasks += 1
            summary.programs += len(records)
            summary.without += not records
            progress.update(bar, description=task.name, advance=1)
    _tell(summary, config, console)
    return summary


def chosen_tasks(tasks: Sequence[TaskRow], held_out: Sequence[str], count: int, seed: int) -> list[TaskRow]:
    """`count` random tasks, none of which is held out: their programs are to be trained on."""
    hidden = set(held_out)
    left = [task for task in tasks if task.workload_hash not in hidden]
    random.Random(seed).shuffle(left)
    return left[:count]


def searched(tasks: Sequence[Task], searchers: Sequence[Searcher]) -> Iterator[tuple[Task, list[str]]]:
    """Each task with the records of what its search proposes, in the order of their ends.

    Nothing is proposed for a task that cannot be searched, or that its searcher died of.
    """
    waiting = list(reversed(tasks))
    asked: dict[int, Task] = {}
    while waiting or asked:
        for number, searcher in enumerate(searchers):
            if number not in asked and waiting:
                asked[number] = waiting.pop()
                searcher.ask(_request(asked[number]))
        for number in replied(searchers, asked):
            task = asked.pop(number)
            try:
                reply = searchers[number].reply()
            except WorkerGone:
                reply = {}
            yield task, [values["record"] for values in reply.get("proposals", ())]


def _request(task: Task) -> dict[str, Any]:
    # One key for all: a searcher forgets each task with the next.
    return {"op": "propose", "key": "", "learned": {}, "task": task_to_json(task)}


def _opened(folder: Path) -> tuple[ms.database.JSONDatabase, set[str]]:
    """The database in a folder, which is made where there is none, and the hashes of the tasks searched.

    Raises ProposeConfigError where it is a database of something else: whoever compiles from that one would
    meet programs without a latency.
    """
    taken = folder / TAKEN_FILE
    if (folder / RECORD_FILE).exists() and not taken.exists():
        raise ProposeConfigError(
            f"database={folder.parent}: {folder.name} in it holds other records than proposals; name "
            "an empty folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    taken.touch()  # before there are records, so that a kill in between leaves none without it
    database, _ = opened_database(folder, TAKEN_FILE)
    return database, {json.loads(line)["workload"] for line in taken.read_text().splitlines()}


def _note(path: Path, task: Task, programs: int) -> None:
    with path.open("a") as file:
        file.write(json.dumps({"workload": task.workload_hash, "programs": programs}) + "\n")


def _tell(summary: ProposeSummary, config: ProposeConfig, console: Console) -> None:
    say = partial(console.print, highlight=False, soft_wrap=True)
    say(f"{summary.programs} programs of {summary.tasks} tasks written to {summary.folder}")
    if summary.known:
        say(f"{summary.known} tasks were searched before")
    if summary.without:
        say(f"{summary.without} tasks brought none")
    same_target = "" if config.target == "llvm" else " with the same target"
    say(
        f"measure them{same_target}: foretune-generate dataset=data/proposed "
        "program_sampling.sampler=database "
        f"program_sampling.database={summary.folder} tasks={config.tasks}"
    )


@hydra.main(config_path="pkg://foretune.conf", config_name="propose", version_base="1.3")
@exits_cleanly()
def main(cfg: DictConfig) -> None:
    """Entry of `foretune-propose`."""
    run(from_hydra(cfg, ProposeConfig))


if __name__ == "__main__":
    main()
