"""Overview of a network and its tasks before a run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tvm.target import Target

from ...compiler.networks.alternatives.alternatives import Offer
from ...compiler.task import Task
from ...compiler.tvm_compat import target_to_json
from ...dataset.hardware import Hardware
from ...dataset.records.database_export import database_folder_name
from ...dataset.records.database_lines import RECORD_FILE
from ...wording import part_of
from ..database.folder import held_briefly
from ..database.tuning_database import TuningDatabase
from ..planners.turn_planner import make_planner
from ..search.config import OneShotConfig
from ..search.opening import opened_searches
from ..search.persistence import Ledger
from ..search.task_search import TaskSearch
from .estimate import TimeEstimate


@dataclass(frozen=True)
class TaskOutlook:
    """One task before a run. Latencies are seconds per call, or None if unknown."""

    name: str
    operator: str
    workload_hash: str
    family: str
    """Family of the task, by `search.families`."""
    weight: int
    """Number of calls in one run of the network."""
    flops: float
    """Floating-point operations of one call."""
    share_of_operations: float
    """Share of the network's operations, in [0, 1]."""
    state: str
    """Status: "new", "tuned", "3 of 6 rounds", or the reason why its search ended without a schedule."""
    due: bool
    """Whether a run would search the task."""
    tuned_latency_s: float | None = None
    """Latency of the best schedule in the database."""
    untuned_latency_s: float | None = None
    """Latency without a schedule, as measured by an earlier run."""
    predicted_latency_s: float | None = None
    """Shortest latency that the cost model predicts for some randomly drawn programs."""


@dataclass(frozen=True)
class NetworkOutlook:
    """A network before a run; `estimate` is None if no data on the time is available."""

    network: str
    target: str
    hardware: str
    database: str
    """Folder of the schedules, or "" if it does not exist yet."""
    checkpoint: str
    """Cost model that predicts the latencies, or ""."""
    programs: int
    """Number of programs that the model rated for each task."""
    tasks: list[TaskOutlook]
    estimate: TimeEstimate | None = None

    @property
    def due(self) -> int:
        """Number of tasks that a run would search."""
        return sum(task.due for task in self.tasks)


def database_folder(root: Path, target: Target, hardware: Hardware) -> Path | None:
    """Folder with the schedules of a target and device, or None if it does not exist."""
    folder = root / database_folder_name(target_to_json(target), hardware.hardware_id)
    return folder if (folder / RECORD_FILE).exists() else None


@contextmanager
def snapshot(root: Path, target: Target, hardware: Hardware) -> Iterator[TuningDatabase]:
    """Copy of a tuning database, or an empty one; opening the folder directly could change its files."""
    folder = database_folder(root, target, hardware)
    with TemporaryDirectory() as copy:
        if folder is not None:
            with held_briefly(folder, only_read=True):
                shutil.copytree(folder, Path(copy) / folder.name, ignore=shutil.ignore_patterns(".*"))
        yield TuningDatabase(Path(copy), target, hardware)


def task_outlooks(
    tasks: Sequence[Task],
    search: OneShotConfig,
    database: TuningDatabase,
    predicted_s: Sequence[float | None],
    offers: Sequence[Offer] = (),
) -> list[TaskOutlook]:
    """An outlook for each task, in order; `predicted_s` holds their predicted latencies.

    Tasks of `offers`, alternatives to some of them, must be among `tasks`.
    """
    ledger = Ledger(database, search.rounds)
    planner = make_planner(search)
    searches, _ = opened_searches(tasks, search, planner, ledger, offers=offers)
    total = sum(task.weight * task.flops for task in tasks) or 1.0
    return [
        TaskOutlook(
            name=task.name,
            operator=task.operator,
            workload_hash=task.workload_hash,
            family=found.family,
            weight=task.weight,
            flops=task.flops,
            share_of_operations=task.weight * task.flops / total,
            state=_state(found, search.rounds),
            due=not found.over and planner.next_round([found], []) is not None,
            tuned_latency_s=found.known_s,
            untuned_latency_s=_finite(ledger.untuned_s(task)),
            predicted_latency_s=seconds,
        )
        for task, found, seconds in zip(tasks, searches, predicted_s, strict=True)
    ]


def _state(search: TaskSearch, rounds: int) -> str:
    if search.known_s is None:
        return search.ending.reason or "new"
    return "tuned" if search.earlier_rounds is None else part_of(search.earlier_rounds, rounds, "round")


def _finite(seconds: float | None) -> float | None:
    return None if seconds is None or seconds == float("inf") else seconds
