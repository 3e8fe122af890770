"""Folder of a tuning database: its lock, its device, and notes in addition to MetaSchedule's own files.

Stock TVM opens the folder as a `JSONDatabase` and ignores the other files. Notes files are append-only and
contain one JSON object per line; the last line about a task counts.
"""

from __future__ import annotations

import fcntl
import json
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from ...dataset.hardware import Hardware
from ...dataset.records.database_lines import RECORD_FILE, WORKLOAD_FILE
from ...errors import UserError
from ...files import disk_errors, write_whole

_Read = TypeVar("_Read")

ROUNDS_FILE = "foretune_rounds.json"
"""File with a JSON line for each progress of a task: `workload`, completed `rounds`, planned rounds `of`."""

STARTS_FILE = "foretune_starts.json"
"""File with a JSON line for each candidate from another device: `workload` and its `trace`."""

TEMPLATES_FILE = "foretune_gpu_templates.json"
"""File with a JSON line for each task with measured GPU templates: its `workload`, and for the fastest
template `latency_s` in seconds (null if none ran), `title` and `module`, TVM's JSON of the module that
launches it."""

DEVICE_FILE = "foretune_device.json"
"""File with the `target` and the `hardware` of the schedules in the folder."""

_LOCK_FILE = ".lock"
"""File that a process locks while it reads or writes lines in the folder."""


class DatabaseUnreadableError(UserError, ValueError):
    """A line of a database is not JSON, or lacks what it should contain."""


def unreadable(path: Path, number: int, error: Exception) -> DatabaseUnreadableError:
    """The error for a line of a file, counted from 1, that cannot be read."""
    why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
    return DatabaseUnreadableError(
        f"database={path}: line {number} cannot be read: {why}; remove the line from a copy of the folder, "
        "or tune into another folder"
    )


class DatabaseInUseError(UserError, RuntimeError):
    """Another process has the folder open."""


def hold_open(owner: object, folder: Path) -> None:
    """Keeps the folder open for as long as `owner` lives, shared with other processes; waits for an import.

    On a file system without locks, no lock is held.
    """
    if not folder.is_dir():  # opened for reading only
        return
    descriptor = os.open(folder, os.O_RDONLY)
    weakref.finalize(owner, os.close, descriptor)
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_SH)


@contextmanager
def held_alone(folder: Path) -> Iterator[None]:
    """Opens a folder exclusively; raises DatabaseInUseError.

    A process that has read the files counts their tasks, so no other process may add tasks meanwhile.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DatabaseInUseError(
                f"database={folder}: a run is tuning into it; wait for it or stop it, then do this again"
            ) from error
        yield
    finally:
        os.close(descriptor)


@contextmanager
def held_briefly(folder: Path, *, only_read: bool = False) -> Iterator[None]:
    """Locks the lines of a folder for reading or writing, and waits for processes that hold the lock.

    Read-only folders and file systems without locks are used without a lock. If `only_read`, so is a folder
    that no run has locked yet.
    """
    with ExitStack() as stack:
        with suppress(OSError):
            lock = stack.enter_context((folder / _LOCK_FILE).open("r" if only_read else "w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def all_text(path: Path) -> str:
    """Text of a file; empty if it does not exist. Raises DatabaseUnreadableError if it is not UTF-8."""
    content = path.read_bytes() if path.exists() else b""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise unreadable(path, content.count(b"\n", 0, error.start) + 1, error) from error


def whole_lines(path: Path) -> list[str]:
    """Lines of a file, without a last line that a kill left unfinished; empty if the file does not exist.

    Raises DatabaseUnreadableError.
    """
    lines = all_text(path).splitlines(keepends=True)
    return [line.rstrip("\n") for line in (lines if _is_finished(lines) else lines[:-1])]


def drop_unfinished_lines(folder: Path, *notes: str) -> int:
    """Removes an unfinished last line, which a kill can leave, from each file of a database.

    `notes` are the names of files other than MetaSchedule's own. Returns the number of removed lines.
    """
    with held_briefly(folder):
        return sum(_cut_off(folder / name) for name in (WORKLOAD_FILE, RECORD_FILE, *notes))


def drop_unfinished_line(path: Path) -> int:
    """Removes an unfinished last line, which a kill can leave; returns the number of removed lines."""
    if not path.exists():
        return 0
    with held_briefly(path.parent):
        return _cut_off(path)


def append_lines(path: Path, lines: Iterable[str]) -> None:
    """Appends lines to a file in a locked folder, after removing an unfinished last line.

    Raises CannotWriteError.
    """
    with disk_errors(path):
        if not _ends_whole(path):
            _cut_off(path)
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))


def _ends_whole(path: Path) -> bool:
    if not path.exists() or not path.stat().st_size:
        return True
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


def _cut_off(path: Path) -> int:
    """`drop_unfinished_line` for a file in a locked folder."""
    lines = all_text(path).splitlines(keepends=True)
    if _is_finished(lines):
        return 0
    os.truncate(path, path.stat().st_size - len(lines[-1].encode()))
    return 1


def _is_finished(lines: list[str]) -> bool:
    """Whether the last of the lines is complete."""
    if not lines:
        return True
    try:
        json.loads(lines[-1])
    except json.JSONDecodeError:
        return False
    return lines[-1].endswith("\n")


def read_notes(path: Path, read: Callable[[dict[str, Any]], _Read]) -> list[_Read]:
    """Result of `read` for each note of a file, in their order; empty if the file does not exist.

    Raises DatabaseUnreadableError for a line without JSON, or on which `read` raises an error.
    """
    found = []
    for number, line in enumerate(whole_lines(path), 1):
        try:
            found.append(read(json.loads(line)))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise unreadable(path, number, error) from error
    return found


def append_notes(path: Path, notes: Iterable[Mapping[str, Any]]) -> None:
    """Appends notes to a file."""
    if lines := [json.dumps(note) for note in notes]:
        with held_briefly(path.parent):
            append_lines(path, lines)


def read_rounds(folder: Path) -> dict[str, tuple[int, int]]:
    """Completed and planned rounds, by workload hash."""
    return dict(
        read_notes(
            folder / ROUNDS_FILE, lambda note: (note["workload"], (int(note["rounds"]), int(note["of"])))
        )
    )


def append_rounds(folder: Path, rounds: Mapping[str, tuple[int, int]]) -> None:
    """Writes completed and planned rounds, by workload hash."""
    append_notes(
        folder / ROUNDS_FILE,
        ({"workload": name, "rounds": done, "of": of} for name, (done, of) in rounds.items()),
    )


def describe_device(folder: Path, target: str, hardware: Hardware) -> None:
    """Writes the target (JSON) and the device of a folder, unless the folder is read-only."""
    if not (folder / DEVICE_FILE).exists():
        content = {"target": json.loads(target), "hardware": asdict(hardware)}
        with suppress(OSError):
            write_whole(folder / DEVICE_FILE, json.dumps(content, indent=1) + "\n")


def read_device(folder: Path) -> tuple[str, Hardware] | None:
    """Target (JSON) and device of a folder; None for a folder of an earlier version, which lacks this
    note. Raises DatabaseUnreadableError."""
    path = folder / DEVICE_FILE
    if not path.exists():
        return None
    try:
        content = json.loads(all_text(path))
        hardware = Hardware.from_json(json.dumps(content["hardware"]))
        return json.dumps(content["target"], sort_keys=True), hardware
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        if isinstance(error, DatabaseUnreadableError):
            raise
        raise unreadable(path, 1, error) from error
