"""Folder of proposals: unmeasured programs of tasks in MetaSchedule's format, and the searched tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tvm.target import Target

from ...compiler.task import Task
from ...dataset.records.database_lines import RECORD_FILE
from ...errors import UserError
from .folder import append_notes, drop_unfinished_lines, read_notes
from .schedule_lines import ScheduleLines, record_content

TAKEN_FILE = "foretune_proposed.json"
"""File with a JSON line for each searched task: its `workload` and the number of its `programs`."""


class NoProposalsError(UserError, ValueError):
    """The folder for proposals is a database of measured programs."""


class ProposalFolder:
    """Proposals for tasks on one target; several processes may add to them."""

    def __init__(self, folder: Path, target: Target) -> None:
        """Opens or creates the folder, and removes a last line that a kill left unfinished.

        Raises NoProposalsError for a database of measured programs: unmeasured ones would break compiling
        from it.
        """
        self.folder = folder
        self._target = target
        self._taken = folder / TAKEN_FILE
        if (folder / RECORD_FILE).exists() and not self._taken.exists():
            raise NoProposalsError(
                f"database={folder.parent}: {folder.name} in it holds records that are not proposals; name "
                "an empty folder"
            )
        folder.mkdir(parents=True, exist_ok=True)
        self._taken.touch()  # before the first record, so that a kill leaves no records without this file
        drop_unfinished_lines(folder, TAKEN_FILE)
        self._file = ScheduleLines(folder)
        self.searched = set(read_notes(self._taken, lambda note: str(note["workload"])))
        """Workload hashes of the searched tasks."""

    def add(self, task: Task, records: Sequence[str]) -> None:
        """Writes the programs of a task as the JSON of their whole traces, and marks the task as searched."""
        contents = [record_content(self._target, task, record, None) for record in records]
        if contents:
            self._file.add(task, contents)
        append_notes(self._taken, [{"workload": task.workload_hash, "programs": len(records)}])
        self.searched.add(task.workload_hash)
