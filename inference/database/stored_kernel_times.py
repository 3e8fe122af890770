"""Measured times of kernels for dynamic shapes, as lines of the tuning database.

A kernel is known by its code, so that another network with the same one needs no measurement. The choice of
kernels follows from the times. This module does not import TVM, so that a bundle can be shown in an instant.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...dataset.records.database_lines import FAILED_S
from .folder import append_notes, read_notes, whole_lines

KERNELS_FILE = "foretune_kernel_times.json"
"""File with a JSON line for each measured kernel: see `KernelTime`."""

VERSION = 1
"""Version of a line; lines of another one are ignored."""


@dataclass(frozen=True)
class KernelTime:
    """Time of one kernel with fixed extents."""

    kernel: str
    """16 hexadecimal digits: structural hash of its module."""
    latency_s: float
    """Seconds of a call."""
    tvm: str
    """Version of TVM that compiled it."""
    version: int = VERSION


class StoredKernelTimes:
    """Times of kernels in the folder of a target and device."""

    def __init__(self, folder: Path, tvm: str, *, read_only: bool = False, empty: bool = False) -> None:
        """Reads the file if it exists; with `empty`, new times replace those in it.

        Times of another TVM are left out. If `read_only`, new times stay in memory. Raises
        DatabaseUnreadableError.
        """
        self._path, self._tvm, self._read_only = folder / KERNELS_FILE, tvm, read_only
        found = [] if empty else read_notes(self._path, _read)
        self._seconds = {one.kernel: one.latency_s for one in found if one is not None and one.tvm == tvm}

    def __len__(self) -> int:
        return len(self._seconds)

    def latency_s(self, kernel: str) -> float | None:
        """Seconds of a kernel; None if it was not measured."""
        return self._seconds.get(kernel)

    def add(self, seconds: Mapping[str, float]) -> None:
        """Adds times by kernel."""
        self._seconds |= seconds
        if seconds and not self._read_only:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            append_notes(self._path, (asdict(KernelTime(*one, self._tvm)) for one in seconds.items()))


def kernel_lines(folder: Path, tvm: str) -> list[str]:
    """The last line about each kernel that this TVM compiled. Raises DatabaseUnreadableError."""
    found = read_notes(folder / KERNELS_FILE, _read)
    lines = zip(found, whole_lines(folder / KERNELS_FILE), strict=True)
    return [*{one.kernel: line for one, line in lines if one is not None and one.tvm == tvm}.values()]


def merge_kernel_times(folder: Path, lines: Iterable[str]) -> tuple[int, int]:
    """Adds the times of kernels that a locked folder has none of.

    Returns the numbers of added times and of kept ones.
    """
    offered = [parsed_kernel_time(line) for line in lines]
    own = {(one.kernel, one.tvm) for one in read_notes(folder / KERNELS_FILE, _read) if one is not None}
    added = {(one.kernel, one.tvm): one for one in offered if (one.kernel, one.tvm) not in own}
    append_notes(folder / KERNELS_FILE, map(asdict, added.values()))
    return len(added), len(offered) - len(added)


def parsed_kernel_time(line: str) -> KernelTime:
    """The time in a line that somebody else may have written; raises ValueError for a faulty one."""
    note = json.loads(line)
    if not isinstance(note, dict) or note.keys() != asdict(KernelTime("", 0.0, "")).keys():
        raise ValueError("no time of a kernel")
    if note["version"] != VERSION or isinstance(note["version"], bool):
        raise ValueError(f"its version is {note['version']!r:.40}, and this foretune reads {VERSION}")
    kernel, latency_s = note["kernel"], note["latency_s"]
    if not isinstance(kernel, str) or len(kernel) != 16 or not set(kernel) <= set("0123456789abcdef"):
        raise ValueError(f"its kernel {kernel!r:.40} must be a hash")
    if not isinstance(note["tvm"], str) or not note["tvm"].isprintable():
        raise ValueError("its TVM must be printable text")
    if not isinstance(latency_s, float) or not 0 < latency_s < FAILED_S:
        raise ValueError(f"its latency {latency_s!r:.40} must be a time in seconds")
    return KernelTime(**note)


def _read(note: Mapping[str, Any]) -> KernelTime | None:
    """The time in a line; None for a line of another version."""
    if note["version"] != VERSION:
        return None
    return KernelTime(str(note["kernel"]), float(note["latency_s"]), str(note["tvm"]))
