"""Notes beside a tuning database: what earlier runs found out about tasks and networks besides schedules."""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...compiler.task import Task
from ..search.config import OneShotConfig
from .folder import append_notes, read_notes

NOTES_FILE = "foretune_notes.json"
"""File with one JSON object a line: `workload` with `untuned_s` (null where it does not run) or `ended`, the
reason why a task that was searched has no schedule, or `parent`, the workload whose programs its search
began with ("" for none), and its `name`; `network`, of which nothing was left to tune; or `search` with the
number of `tasks` that a run has searched and the `seconds` that it took."""


@dataclass(frozen=True)
class TaskName:
    """Name of a task, and what tells it from others that are called so."""

    name: str
    workload_hash: str


@dataclass(frozen=True)
class RunNote:
    """A run that tuned all that was due."""

    tasks: int
    """Tasks that were searched."""
    seconds: float
    """Seconds of search and measurement."""


class TuningNotes:
    """Untuned latencies, tasks that ended without a schedule, parents, finished networks, the time of runs.

    A later line about the same takes the place of an earlier one.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Reads the file if there is one; without `path` the notes are not kept."""
        self._path = path
        self._untuned_s: dict[str, float] = {}
        self._ended: dict[str, str] = {}
        self._parents: dict[str, TaskName] = {}
        self._networks: set[str] = set()
        self._runs: defaultdict[str, list[RunNote]] = defaultdict(list)
        for note in read_notes(path) if path is not None else []:
            self._take(note)

    def untuned_s(self, task: Task) -> float | None:
        """Latency in seconds of a task without a schedule, inf where it does not run; None if not known."""
        return self._untuned_s.get(task.workload_hash)

    def note_untuned(self, task: Task, seconds: float) -> None:
        """Keeps the latency of a task without a schedule, inf where it does not run."""
        if self.untuned_s(task) != seconds:
            self._add(workload=task.workload_hash, untuned_s=seconds if math.isfinite(seconds) else None)

    def ended(self, task: Task) -> str:
        """Reason why a searched task has no schedule, "" where it has one or was not searched to its end."""
        return self._ended.get(task.workload_hash, "")

    def note_ended(self, task: Task, reason: str) -> None:
        """Keeps the reason why a task has no schedule, "" where it has one now."""
        if self.ended(task) != reason:
            self._add(workload=task.workload_hash, ended=reason)

    def parent(self, task: Task) -> TaskName | None:
        """The task whose programs the search of another began with; None where it began with none."""
        return self._parents.get(task.workload_hash)

    def note_parent(self, task: Task, parent: TaskName | None) -> None:
        """Keeps whose programs the search of a task began with."""
        if self.parent(task) != parent:
            found = parent or TaskName("", "")
            self._add(workload=task.workload_hash, parent=found.workload_hash, name=found.name)

    def expects_nothing(self, network: Mapping[str, Any]) -> bool:
        """Whether the last run on a network of these settings left nothing to tune.

        It is a guess: another network may have these settings by now.
        """
        return _key(network) in self._networks

    def note_nothing_left(self, network: Mapping[str, Any]) -> None:
        """Keeps that nothing of a network is left to tune; `network` are its settings as JSON values."""
        if not self.expects_nothing(network):
            self._add(network=_key(network))

    def runs(self, search: OneShotConfig) -> list[RunNote]:
        """Earlier runs with the same search, apart from its seed."""
        return self._runs[_search_key(search)]

    def note_run(self, search: OneShotConfig, run: RunNote) -> None:
        """Keeps how long a run took."""
        self._add(search=_search_key(search), tasks=run.tasks, seconds=round(run.seconds, 1))

    def _add(self, **line: Any) -> None:
        self._take(line)
        if self._path is not None:
            append_notes(self._path, [line])

    def _take(self, line: Mapping[str, Any]) -> None:
        if "network" in line:
            self._networks.add(line["network"])
        if "untuned_s" in line:
            seconds = line["untuned_s"]
            self._untuned_s[line["workload"]] = math.inf if seconds is None else seconds
        if "search" in line:
            self._runs[line["search"]].append(RunNote(line["tasks"], line["seconds"]))
        if "parent" in line:
            self._parents.pop(line["workload"], None)
            if line["parent"]:
                self._parents[line["workload"]] = TaskName(line["name"], line["parent"])
        if "ended" in line:
            self._ended[line["workload"]] = line["ended"]


def _search_key(search: OneShotConfig) -> str:
    return _key({name: value for name, value in asdict(search).items() if name != "seed"})


def _key(network: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(network, sort_keys=True, default=str).encode()).hexdigest()[:16]
