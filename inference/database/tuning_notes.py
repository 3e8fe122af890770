"""Notes in a tuning database: facts about tasks and networks from earlier runs, other than schedules."""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...compiler.task import Task
from ..search.config import OneShotConfig
from .folder import append_notes, read_notes
from .task_note import TaskNote

NOTES_FILE = "foretune_notes.json"
"""File with one JSON object per line. A line has one of these forms: `workload` with `untuned_s` (null if the
task does not run); `workload` with `ended`, the reason why a completely searched task has no schedule;
`workload` with `left`, the reason why the last run left the task without one; `workload` with `parent`, the
workload whose programs its search began with ("" for none), and its `name`; `network`, for a
network that is completely tuned; or `search`, with the number of `tasks` that a run searched and the
`seconds` that it lasted."""


@dataclass(frozen=True)
class TaskName:
    """Name of a task, and a key that distinguishes it from tasks of the same name."""

    name: str
    workload_hash: str


@dataclass(frozen=True)
class RunNote:
    """A run that tuned every task that was due."""

    tasks: int
    """Number of searched tasks."""
    seconds: float
    """Seconds of search and measurement."""


class TuningNotes:
    """Untuned latencies, tasks left without a schedule, parents, finished networks, durations of runs.

    A later line about the same subject replaces an earlier one.
    """

    def __init__(self, path: Path | None = None, *, read_only: bool = False) -> None:
        """Reads the file if it exists; without `path`, or if `read_only`, new notes stay in memory."""
        self._path = None if read_only else path
        self._untuned_s: dict[str, float] = {}
        self._ended: dict[str, str] = {}
        self._left: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._parents: dict[str, TaskName] = {}
        self._networks: set[str] = set()
        self._runs: defaultdict[str, list[RunNote]] = defaultdict(list)
        if path is not None:
            read_notes(path, self._take)

    def untuned_s(self, task: Task) -> float | None:
        """Latency in seconds of a task without a schedule; inf if it does not run, None if unknown."""
        return self.untuned_s_of(task.workload_hash)

    def untuned_s_of(self, workload_hash: str) -> float | None:
        """`untuned_s` by workload hash."""
        return self._untuned_s.get(workload_hash)

    def note_untuned(self, task: Task, seconds: float) -> None:
        """Stores the latency of a task without a schedule; inf if it does not run."""
        if self.untuned_s(task) != seconds:
            self._add(workload=task.workload_hash, untuned_s=seconds if math.isfinite(seconds) else None)

    def ended(self, task: Task) -> str:
        """Reason why a completely searched task has no schedule, or ""."""
        return self._ended.get(task.workload_hash, "")

    def note_ended(self, task: Task, reason: str) -> None:
        """Stores the reason why a task has no schedule; "" if it has one now."""
        if self.ended(task) != reason:
            self._add(workload=task.workload_hash, ended=reason, name=task.name)

    def left(self, task: Task) -> str:
        """Reason why the task is left without a schedule by a complete search or by the last run, or ""."""
        return self.ended(task) or self._left.get(task.workload_hash, "")

    def note_left(self, task: Task, reason: str) -> None:
        """Stores the reason why a run left the task without a schedule; "" if it did not.

        A later run searches the task again, unless the search is complete (`note_ended`).
        """
        if self._left.get(task.workload_hash, "") != reason:
            self._add(workload=task.workload_hash, left=reason, name=task.name)

    def parent(self, task: Task) -> TaskName | None:
        """Task whose programs the search of another task began with, or None."""
        return self._parents.get(task.workload_hash)

    def note_parent(self, task: Task, parent: TaskName | None) -> None:
        """Stores the task whose programs a search began with."""
        if self.parent(task) != parent:
            found = parent or TaskName("", "")
            self._add(workload=task.workload_hash, parent=found.workload_hash, name=found.name)

    def of_tasks(self) -> dict[str, TaskNote]:
        """The notes on each task by workload hash, for a bundle."""
        hashes = dict.fromkeys([*self._untuned_s, *self._ended, *self._left, *self._parents])
        return {name: self._of(name) for name in hashes}

    def adopt(self, notes: Sequence[TaskNote], tuned: Collection[str], added: Collection[str]) -> None:
        """Adds notes of another database on the same device; own notes take precedence.

        Args:
            notes: facts about tasks.
            tuned: workload hashes of the tasks that have a schedule here; they need no reason.
            added: those whose schedule came from the other database, together with its parent.
        """
        lines: list[dict[str, Any]] = []
        for note in notes:
            own, subject = self._of(note.workload_hash), {"workload": note.workload_hash}
            was_measured = note.untuned_fails or note.untuned_s is not None
            if was_measured and note.workload_hash not in self._untuned_s:
                lines.append({**subject, "untuned_s": None if note.untuned_fails else note.untuned_s})
            if note.workload_hash not in tuned and not own.decided:
                named = {**subject, "name": note.name}
                lines += [{**named, "ended": note.ended}] if note.ended else []
                lines += [{**named, "left": note.left}] if note.left else []
            if note.workload_hash in added and note.parent and not own.parent:
                lines.append({**subject, "parent": note.parent, "name": note.parent_name})
        for line in lines:
            self._take(line)
        if self._path is not None:
            append_notes(self._path, lines)

    def _of(self, workload_hash: str) -> TaskNote:
        untuned_s = self._untuned_s.get(workload_hash)
        note = TaskNote(
            workload_hash,
            name=self._names.get(workload_hash, ""),
            ended=self._ended.get(workload_hash, ""),
            left=self._left.get(workload_hash, ""),
        )
        if untuned_s is not None:
            fails = math.isinf(untuned_s)
            note = replace(note, untuned_s=None if fails else untuned_s, untuned_fails=fails)
        if (parent := self._parents.get(workload_hash)) is not None:
            note = replace(note, parent=parent.workload_hash, parent_name=parent.name)
        return note

    def expects_nothing(self, network: Mapping[str, Any]) -> bool:
        """Whether the last run on a network of these settings left nothing to tune.

        The answer is a guess, because a different network may have these settings by now.
        """
        return _key(network) in self._networks

    def note_nothing_left(self, network: Mapping[str, Any]) -> None:
        """Stores that a network is completely tuned; `network` holds its settings as JSON values."""
        if not self.expects_nothing(network):
            self._add(network=_key(network))

    def runs(self, search: OneShotConfig) -> list[RunNote]:
        """Earlier runs with the same search settings, except for the seed."""
        return self._runs[_search_key(search)]

    def note_run(self, search: OneShotConfig, run: RunNote) -> None:
        """Stores the duration of a run."""
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
            self._untuned_s[line["workload"]] = math.inf if seconds is None else float(seconds)
        if "search" in line:
            self._runs[line["search"]].append(RunNote(int(line["tasks"]), float(line["seconds"])))
        if "parent" in line:
            self._parents.pop(line["workload"], None)
            if line["parent"]:
                self._parents[line["workload"]] = TaskName(line["name"], line["parent"])
        for key, reasons in (("ended", self._ended), ("left", self._left)):
            if key in line:
                reasons[line["workload"]] = line[key]
                self._names[line["workload"]] = line.get("name", "")


def _search_key(search: OneShotConfig) -> str:
    return _key({name: value for name, value in asdict(search).items() if name != "seed"})


def _key(network: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(network, sort_keys=True, default=str).encode()).hexdigest()[:16]
