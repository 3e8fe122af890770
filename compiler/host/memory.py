"""Memory of this machine: what a process may still use, and the peak of a process with its children.

A container limits memory by a control group, which `MemAvailable` does not know.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_KINDS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Files of a control group with its limit and its usage, and the field of memory.stat with the part of the
usage that the kernel gives up at once, in version 2 and version 1."""

PERIOD_S = 0.5
"""Seconds between two looks at the memory of the processes."""


def available_bytes(pid: int | str = "self") -> int | None:
    """Bytes that this process can still take without swapping; None if the system does not tell.

    The least of what the machine has available and what each of the process's control groups leaves.
    """
    rooms = [*_machine_room(), *_group_rooms(pid)]
    return min(rooms, default=None)


def resident_bytes() -> int:
    """Resident memory of this process; 0 if the system does not tell."""
    resident, _ = _statm(os.getpid())
    return resident


def _machine_room() -> Iterator[int]:
    for line in _read(_PROC / "meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            yield int(value.split()[0]) * 1024


class MemoryGroup(NamedTuple):
    """Control group that limits the memory of a process."""

    root: Path
    """Folder of the topmost group. A container may see its own group here, and the path of the host below."""
    own: Path
    """Folder of the group."""
    unified: bool
    """Whether this is version 2 of control groups."""


def memory_groups(pid: int | str = "self") -> Iterator[MemoryGroup]:
    """Control groups of a process that limit memory; none if the system does not tell."""
    for line in _read(_PROC / str(pid) / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or "memory" in controllers.split(","):
            root = _CGROUPS / "memory" if controllers else _CGROUPS
            yield MemoryGroup(root, root / path.lstrip("/"), not controllers)


def _group_rooms(pid: int | str) -> Iterator[int]:
    """Bytes that the control groups of a process leave, from its own to the topmost."""
    for root, own, _ in memory_groups(pid):
        for folder in (own, *own.parents):
            if folder.is_relative_to(root) and (room := _room(folder)) is not None:
                yield room


def _room(group: Path) -> int | None:
    for limit_file, usage_file, reclaimable in _KINDS:
        limit, usage = _read(group / limit_file).strip(), _read(group / usage_file).strip()
        if limit.isdecimal() and usage.isdecimal():
            stat = dict(line.split() for line in _read(group / "memory.stat").splitlines())
            return max(int(limit) - int(usage) + int(stat.get(reclaimable, 0)), 0)
    return None


class PeakMemory:
    """Peak memory of this process together with all its descendants, from the creation of the object on.

    A thread looks at them every PERIOD_S. Pages that processes share, such as libraries, count once: of each
    process the private pages count, and in addition the shared pages of the process with most of them.
    """

    def __init__(self) -> None:
        self._peak = [0]
        ended = threading.Event()
        weakref.finalize(self, ended.set)
        self._end = ended.set
        look(self._peak)
        threading.Thread(target=_watch, args=(self._peak, ended), daemon=True, name="memory").start()

    @property
    def peak_bytes(self) -> int | None:
        """The peak so far; None if the system does not tell."""
        look(self._peak)
        return self._peak[0] or None

    def stop(self) -> int | None:
        """Ends the thread and returns the peak."""
        self._end()
        return self.peak_bytes


def _watch(peak: list[int], ended: threading.Event) -> None:
    while not ended.wait(PERIOD_S):
        look(peak)


def look(peak: list[int]) -> None:
    """Raises `peak[0]` to the memory of this process and its descendants, if that is higher."""
    memory = [_statm(pid) for pid in _tree(os.getpid())]
    private = sum(resident - shared for resident, shared in memory)
    peak[0] = max(peak[0], private + max((shared for _, shared in memory), default=0))


def _tree(pid: int) -> Iterator[int]:
    """A process and its descendants."""
    yield pid
    for thread in _threads(_PROC / str(pid) / "task"):
        for child in _read(thread / "children").split():
            yield from _tree(int(child))


def _threads(folder: Path) -> list[Path]:
    """Folders of the threads of a process; none if it has ended meanwhile."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _statm(pid: int) -> tuple[int, int]:
    """Resident and shared bytes of a process; 0 for one that has ended."""
    words = _read(_PROC / str(pid) / "statm").split()
    return (int(words[1]) * _PAGE_BYTES, int(words[2]) * _PAGE_BYTES) if len(words) > 2 else (0, 0)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
