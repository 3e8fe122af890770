"""`foretune propose`: searches tasks of a dataset and writes unmeasured proposals for training.

A search with a frozen model visits thousands of programs and ends at programs that the model overrates. Such
programs are rare in a search that learns from its measurements (One-Shot Tuner section 4.1.2). Measuring them
and training on them corrects the model. The proposals go into a MetaSchedule database, which
`foretune generate` measures.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from rich.console import Console

from ..compiler.task import Task
from ..compiler.tvm_compat import parse_target, target_to_json
from ..configuration import from_hydra
from ..dataset.features import FEATURE_VERSION
from ..dataset.measure.worker.process import WorkerLostError
from ..dataset.records.database_export import database_folder_name
from ..dataset.records.exchange import HERE, find_hardware
from ..dataset.records.schema import TaskRow
from ..dataset.records.stored_tasks import stored_rows, stored_task
from ..errors import UserError
from ..files import check_writable, disk_errors
from ..models.checkpoints.checkpoint import load_checkpoint
from ..models.checkpoints.shipped import AUTO
from ..progress import job_progress
from ..terminal import CommandConsole, say
from ..wording import counted, shell_command, verb
from .database.proposal_folder import ProposalFolder
from .search.checkpoint_fit import fitting_checkpoint
from .search.config import OneShotConfig
from .search.loop import RoundBudget
from .workers.base import Searcher
from .workers.messages import RoundReply, RoundRequest
from .workers.searchers import replied, start_searchers


class ProposeConfigError(UserError, ValueError):
    """A setting of the proposals is out of range, or does not fit the dataset."""


@dataclass(frozen=True)
class ProposeConfig:
    """Settings of the proposals; the fields are those in conf/propose.yaml."""

    dataset: Path
    database: Path
    checkpoint: str | None = AUTO
    target: Any = "llvm"
    hardware: str = HERE
    tasks: int = 100
    seed: int = 0
    search: OneShotConfig = field(default_factory=lambda: OneShotConfig(rounds=1, replay_factor=1))

    def __post_init__(self) -> None:
        if self.tasks < 1:
            raise ProposeConfigError(f"tasks={self.tasks}: must be at least 1")
        for name, only in (("rounds", 1), ("extra_rounds", 0), ("replay_factor", 1)):
            if (value := getattr(self.search, name)) != only:
                raise ProposeConfigError(
                    f"search.{name}={value}: later rounds and the selection among proposals need "
                    f"measurements, and proposals are not measured; leave it at {only}"
                )


@dataclass
class ProposeSummary:
    """Counts of a run: `known` tasks were searched before; the searches of `without` tasks proposed nothing.

    `failed` tasks are not recorded as searched, so that the next run searches them again.
    """

    folder: Path
    tasks: int = 0
    programs: int = 0
    known: int = 0
    without: int = 0
    failed: int = 0
    reason: str = ""
    """Reason of the first failure."""


def run(config: ProposeConfig, console: Console | None = None) -> ProposeSummary:
    """Searches tasks of a dataset and writes the programs found. Raises UserError."""
    console = console or CommandConsole()
    check_writable(config.database, "database", folder=True)
    with disk_errors(config.database, kept=f"proposals of finished tasks are kept in {config.database}"):
        return _proposed(config, console)


def _proposed(config: ProposeConfig, console: Console) -> ProposeSummary:
    """`run` with a folder that can be written."""
    target = parse_target(config.target)
    checkpoint = fitting_checkpoint(config.checkpoint, target)
    held_out = _held_out(checkpoint)
    tasks = chosen_tasks(stored_rows(config.dataset), held_out, config.tasks, config.seed)
    if not tasks:
        raise ProposeConfigError(
            f"dataset={config.dataset}: checkpoint={checkpoint} holds out all of its tasks for tests; "
            "name a dataset with other tasks"
        )
    hardware = find_hardware(config.hardware, target)
    proposals = ProposalFolder(
        config.database / database_folder_name(target_to_json(target), hardware.hardware_id), target
    )
    summary = ProposeSummary(proposals.folder)
    left = [stored_task(row) for row in tasks if row.workload_hash not in proposals.searched]
    summary.known = len(tasks) - len(left)
    with ExitStack() as stack:
        searchers = start_searchers(config.search, target, checkpoint, hardware, nice=False)
        for searcher in searchers:
            stack.callback(searcher.close)
        progress = stack.enter_context(job_progress(console))
        bar = progress.add_task("propose", total=len(tasks), completed=summary.known)
        for task, reply in searched(left, searchers):
            progress.update(bar, description=task.name, advance=1)
            if reply.error:
                summary.failed += 1
                summary.reason = summary.reason or f"{task.name}: {reply.reason}"
                continue
            records = [proposal.record for proposal in reply.proposals]
            proposals.add(task, records)
            summary.tasks += 1
            summary.programs += len(records)
            summary.without += not records
    _tell(summary, config, console)
    return summary


def _held_out(checkpoint: str | None) -> Sequence[str]:
    """Workload hashes of the tasks that a checkpoint holds out for testing."""
    if checkpoint is None:
        return ()
    return load_checkpoint(checkpoint, feature_version=FEATURE_VERSION).card.split.test_tasks


def chosen_tasks(tasks: Sequence[TaskRow], held_out: Sequence[str], count: int, seed: int) -> list[TaskRow]:
    """`count` random tasks that are not held out, because a model will be trained on their programs."""
    hidden = set(held_out)
    left = [task for task in tasks if task.workload_hash not in hidden]
    random.Random(seed).shuffle(left)
    return left[:count]


def searched(tasks: Sequence[Task], searchers: Sequence[Searcher]) -> Iterator[tuple[Task, RoundReply]]:
    """Yields each task with the reply to its search, in the order in which the searches end.

    The reply of a searcher that died is an error.
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
            except WorkerLostError as error:
                reply = RoundReply(error=str(error) or "the search process died")
            yield task, reply


def _request(task: Task) -> RoundRequest:
    # All tasks share one key, so that a searcher drops each task when the next one arrives.
    return RoundRequest(key="", budget=RoundBudget(0), task=task)


def _tell(summary: ProposeSummary, config: ProposeConfig, console: Console) -> None:
    programs, tasks = counted(summary.programs, "program"), counted(summary.tasks, "task")
    say(console, f"{programs} of {tasks} written to {summary.folder}")
    if summary.known:
        say(console, f"{counted(summary.known, 'task')} {verb(summary.known, 'was', 'were')} searched before")
    if summary.without:
        say(
            console, f"{counted(summary.without, 'task')} {verb(summary.without, 'has', 'have')} no proposals"
        )
    if summary.failed:
        failed = f"{counted(summary.failed, 'task')} failed, first {summary.reason}"
        say(console, f"{failed}; the same command tries again", "yellow")
    same_target = "" if config.target == "llvm" else " with the same target"
    measure = ("generate", "dataset=data/proposed", "program_sampling.sampler=database")
    given = (f"program_sampling.database={summary.folder}", f"tasks={config.tasks}")
    say(console, f"measure them{same_target}: {shell_command('foretune', *measure, *given)}")


def main(config: DictConfig) -> None:
    """Entry point of `foretune propose`."""
    run(from_hydra(config, ProposeConfig))
