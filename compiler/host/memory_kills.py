"""Processes that the kernel killed for lack of memory, as far as it counts them."""

from __future__ import annotations

from pathlib import Path

from .memory import memory_groups

_MACHINE = Path("/proc/vmstat")
_KILLS = "oom_kill"
"""Name of the count in the files of the kernel, which have a name and a number in each line."""

_OUT_OF_MEMORY = ("std::bad_alloc", "MemoryError", "Cannot allocate memory", "LLVM ERROR: out of memory")


def tells_of_no_memory(message: str) -> bool:
    """Whether a message says that this machine gave a process no memory; the memory of a GPU is another."""
    return any(words in message for words in _OUT_OF_MEMORY)


def out_of_memory_kills() -> int | None:
    """Number of processes killed for lack of memory, in this control group and on the machine.

    None if the kernel does not tell. Only an increase matters, as processes of other programs count, too.
    """
    counts = [count for path in [_MACHINE, *_files_of_group()] if (count := _count(path)) is not None]
    return sum(counts) if counts else None


def _files_of_group() -> list[Path]:
    """Files with the count of this process's control group, for both versions of control groups."""
    found = []
    for root, own, unified in memory_groups():
        name = "memory.events" if unified else "memory.oom_control"
        found += [own / name, root / name]
    return list(dict.fromkeys(found))


def _count(path: Path) -> int | None:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    counts = dict(line.split()[:2] for line in lines if len(line.split()) >= 2)
    return int(counts[_KILLS]) if counts.get(_KILLS, "").isdigit() else None
