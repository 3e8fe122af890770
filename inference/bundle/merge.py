"""Merge of measured schedules into the folder of a tuning database: the faster of two latencies stays.

A task and a trace identify a schedule, and a merge keeps the least latency of each. A merge is therefore
idempotent. Folders that are merged into each other end up with the same schedules in either order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ...dataset.records.database_lines import (
    RECORD_FILE,
    WORKLOAD_FILE,
    StoredRecord,
    parsed_record,
    parsed_workload,
)
from ...files import write_whole
from ..database.folder import append_rounds, read_rounds, whole_lines

Rounds = tuple[int, int]
"""Completed and planned rounds of a task; its search is complete if the first is at least the second."""

_Key = tuple[str, str]
"""Workload hash and trace."""

_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True)
class MergedTask:
    """One task of a merge. Latencies are seconds of its fastest schedule."""

    before_s: float | None
    """Latency in the folder before the merge, or None without a schedule."""
    offered_s: float
    added: int
    """Schedules added to the folder."""

    @property
    def outcome(self) -> str:
        """`added` for a new task, `improved` for a faster schedule, otherwise `kept`."""
        if self.before_s is None:
            return "added"
        return "improved" if self.offered_s < self.before_s else "kept"

    @property
    def latency_s(self) -> float:
        """Latency after the merge."""
        return self.offered_s if self.before_s is None else min(self.before_s, self.offered_s)


def merge(
    folder: Path,
    workloads: Sequence[str],
    records: Sequence[StoredRecord],
    rounds: Mapping[str, Rounds] | None = None,
) -> dict[str, MergedTask]:
    """Merges schedules into a folder under an exclusive lock, and returns the tasks by workload hash.

    A kill at any moment leaves either the old or the new schedules. It never marks a search as complete
    without the schedules that it found. `workloads` are lines of JSON, and `rounds` is the progress by
    workload hash. Raises CannotWriteError if the folder cannot be written.
    """
    own = _Folder.read(folder)
    names = [parsed_workload(line) for line in workloads]
    offered: dict[_Key, StoredRecord] = {}
    for record in records:
        key = names[record.workload], record.trace
        if key not in offered or record.latency_s < offered[key].latency_s:
            offered[key] = record
    taken = {
        key: record
        for key, record in offered.items()
        if key not in own.latency_s or record.latency_s < own.latency_s[key]
    }
    merged = _outcomes(own, offered, taken)
    lines = dict(zip(names, workloads, strict=True))
    own.add_workloads({name: lines[name] for name, _ in taken if name not in own.index})
    before, after = _merged_rounds(read_rounds(folder), rounds or {}, merged)
    # The folder is consistent after each of these writes. Tasks without a schedule and their progress are
    # harmless, and a search counts as complete only after its schedules are written.
    if taken:
        write_whole(folder / WORKLOAD_FILE, _as_lines(own.workload_lines))
    append_rounds(folder, before)
    if taken:
        kept = [line for key, line in own.record_lines if key not in taken]
        write_whole(
            folder / RECORD_FILE,
            _as_lines([*kept, *(record.line(own.index[name]) for (name, _), record in taken.items())]),
        )
    append_rounds(folder, after)
    return merged


def tuned_tasks(folder: Path) -> set[str]:
    """Workload hashes of the tasks with a schedule in a folder."""
    return {name for name, _ in _Folder.read(folder).latency_s}


@dataclass
class _Folder:
    """Current files of a tuning database."""

    workload_lines: list[str]
    index: dict[str, int]
    """Line of each task, by workload hash."""
    record_lines: list[tuple[_Key | None, str]]
    """Lines of records with their keys; the key is None for a line without a measured record."""
    latency_s: dict[_Key, float]

    @classmethod
    def read(cls, folder: Path) -> _Folder:
        workload_lines = whole_lines(folder / WORKLOAD_FILE)
        names = [_or_none(parsed_workload, line) for line in workload_lines]
        index = {name: number for number, name in reversed([*enumerate(names)]) if name is not None}
        own = cls(workload_lines, index, [], {})
        for line in whole_lines(folder / RECORD_FILE):
            record = _or_none(parsed_record, line, len(names))
            name = None if record is None else names[record.workload]
            key = None if record is None or name is None else (name, record.trace)
            own.record_lines.append((key, line))
            if key is not None and record is not None:
                own.latency_s[key] = min(record.latency_s, own.latency_s.get(key, record.latency_s))
        return own

    def add_workloads(self, lines: Mapping[str, str]) -> None:
        for name, line in lines.items():
            self.index[name] = len(self.workload_lines)
            self.workload_lines.append(line)


def _outcomes(
    own: _Folder, offered: Mapping[_Key, StoredRecord], taken: Mapping[_Key, StoredRecord]
) -> dict[str, MergedTask]:
    before: dict[str, float] = {}
    for (name, _), latency_s in own.latency_s.items():
        before[name] = min(latency_s, before.get(name, latency_s))
    best: dict[str, float] = {}
    for (name, _), record in offered.items():
        best[name] = min(record.latency_s, best.get(name, record.latency_s))
    added = Counter(name for name, _ in taken)
    return {name: MergedTask(before.get(name), latency_s, added[name]) for name, latency_s in best.items()}


def _merged_rounds(
    own: Mapping[str, Rounds], offered: Mapping[str, Rounds], merged: Mapping[str, MergedTask]
) -> tuple[dict[str, Rounds], dict[str, Rounds]]:
    """Progress to write before and after the schedules; the more advanced search counts."""
    before: dict[str, Rounds] = {}
    after: dict[str, Rounds] = {}
    for name, task in merged.items():
        found, known = offered.get(name, (0, 0)), own.get(name, (0, 0))
        if task.before_s is not None:
            found = max(found, known, key=lambda rounds: (rounds[0] >= rounds[1], rounds))
        if found != known:
            unfinished_and_new = found[0] < found[1] and task.before_s is None
            (before if unfinished_and_new else after)[name] = found
    return before, after


def _or_none(parse: Callable[..., _Parsed], *arguments: object) -> _Parsed | None:
    """Value that `parse` returns for a line, or None for an unknown line."""
    try:
        return parse(*arguments)
    except (ValueError, RecursionError):
        return None


def _as_lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
