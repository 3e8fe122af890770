"""Kinds of faults, with what is random in them."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from .subjects import SUBJECTS, Subject

SIGNALS = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM, "hang_up": signal.SIGHUP}
KILL_CHILD, MEMORY, FULL_DISK, READ_ONLY, DAMAGED = (
    "kill_child",
    "memory",
    "full_disk",
    "read_only",
    "damaged",
)
KINDS = (*SIGNALS, KILL_CHILD, MEMORY, FULL_DISK, READ_ONLY, DAMAGED)

_CLONE_NEWNS = 0x20000
"""Flag of unshare(2) for a new mount namespace."""

_DISK_BYTES = 96 << 20
_FREE_BYTES = 256 << 10
"""Most bytes that a full disk has left."""
_MEMORY_BYTES = 1 << 30
"""Most bytes of address space that a command gets in addition to that of its imports."""


@dataclass(frozen=True)
class Fault:
    """A fault of a command."""

    number: int
    command: str
    kind: str
    share: float
    """Random number from 0 to 1: when the fault comes, or how hard it is."""
    choice: int
    """Random number that chooses among files, processes and bytes."""

    @property
    def subject(self) -> Subject:
        return SUBJECTS[self.command]


def planned(count: int, seed: int, commands: list[str], kinds: list[str]) -> list[Fault]:
    """Faults of a seed: each kind of each command about equally often."""
    pairs = [
        (command, kind)
        for command in commands
        for kind in kinds
        if kind != KILL_CHILD or SUBJECTS[command].has_children
    ]
    random.Random(seed).shuffle(pairs)
    found = []
    for number in range(count):
        draw = random.Random(f"{seed}/{number}")
        found.append(Fault(number, *pairs[number % len(pairs)], draw.random(), draw.randrange(2**32)))
    return found


@dataclass
class Surroundings:
    """Folder of a faulted command, with its limits."""

    folder: Path
    limits: Mapping[str, int] = field(default_factory=dict)
    detail: str = ""


@cache
def private_mounts() -> bool:
    """Gives this process and its later children mounts of their own, which end with them; False if not.

    So even a killed benchmark leaves no disk mounted. It needs root.
    """
    if os.geteuid() != 0 or ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNS):
        return False
    return not _call("mount", "--make-rprivate", "/")


@contextmanager
def disk(folder: Path) -> Iterator[None]:
    """Makes the folder a small disk of its own if mounts are private, otherwise a plain folder."""
    folder.mkdir(parents=True)
    words = ("mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", folder)
    own = private_mounts() and not _call(*words)
    try:
        yield
    finally:
        if own:
            _call("umount", "-l", folder)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def surroundings(fault: Fault, folder: Path) -> Iterator[Surroundings]:
    """Makes a folder, and takes back what is wrong with it at the end of the block."""
    if fault.kind == MEMORY:
        most = int(fault.share * _MEMORY_BYTES)
        yield Surroundings(folder, {"RLIMIT_AS": most}, f"{most >> 20} MiB of memory")
    elif fault.kind == FULL_DISK:
        left = int(fault.share * _FREE_BYTES)
        if not folder.is_mount():
            yield Surroundings(folder, {"RLIMIT_FSIZE": left}, f"files of {left} bytes at most")
            return
        ballast = folder / "ballast"
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(shutil.disk_usage(folder).free - left, 1))
        yield Surroundings(folder, detail=f"a disk with {left} bytes left")
        ballast.unlink()
    elif fault.kind == READ_ONLY:
        yield from _read_only(folder)
    elif fault.kind == DAMAGED:
        yield from _damaged(fault, folder)
    else:
        yield Surroundings(folder)


def _read_only(folder: Path) -> Iterator[Surroundings]:
    if folder.is_mount():
        _call("mount", "-o", "remount,ro", folder)
        yield Surroundings(folder, detail="a read-only disk")
        _call("mount", "-o", "remount,rw", folder)
        return
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for path in folders:
        path.chmod(0o555)
    yield Surroundings(folder, detail="read-only folders")
    for path in folders:
        path.chmod(0o755)


def _damaged(fault: Fault, folder: Path) -> Iterator[Surroundings]:
    """Flips some bits of a file, or cuts it off."""
    files = sorted(
        {path for pattern in fault.subject.reads for path in folder.glob(pattern) if path.stat().st_size}
    )
    path = files[fault.choice % len(files)]
    whole, draw = path.read_bytes(), random.Random(fault.choice)
    if fault.share < 0.5:
        content, what = whole[: draw.randrange(len(whole))], "cut off"
    else:
        flipped = bytearray(whole)
        for _ in range(16):
            flipped[draw.randrange(len(flipped))] ^= 1 << draw.randrange(8)
        content, what = bytes(flipped), "with flipped bits"
    path.write_bytes(content)
    yield Surroundings(folder, detail=f"{path.relative_to(folder)} {what}")
    path.write_bytes(whole)


def _call(*words: Any) -> int:
    return subprocess.run([str(word) for word in words], capture_output=True).returncode
