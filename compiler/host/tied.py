"""Child side of `lifeline`: ties this process to its parent. Tied processes start with this file as script.

It imports nothing of foretune, and the tie comes before the imports of the program, which take seconds: a
process that is stopped or loses its parent meanwhile would stay for ever.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

KERNEL_ENDS_CHILDREN = sys.platform == "linux"
"""Whether the kernel can kill a process when its parent ends."""

BY_KERNEL, BY_PIPE = "kernel", "pipe"
"""Ways to tie a process, as words of its command line."""

DEAF, LISTENING = "deaf", "listening"
"""Whether a process ignores the signals that end a command, because its parent handles them."""

ENDED_BY_PARENT = 143
"""Exit status of a process whose parent ended before it was tied."""

_PR_SET_PDEATHSIG = 1

_GOES_FIRST = "1000"
"""Highest value of `oom_score_adj`."""


def tie_by_kernel(parent: int) -> None:
    """Makes Linux kill this process when the thread that started it ends; does nothing on other systems.

    Ends this process at once if `parent`, its process id, is no longer the parent: a parent that ended
    earlier sends no signal.
    """
    if KERNEL_ENDS_CHILDREN:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(ENDED_BY_PARENT)


def ignore(*numbers: signal.Signals) -> None:
    """Makes this process ignore signals that its parent handles."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


def go_first_without_memory() -> None:
    """Makes Linux kill this process, whose work can be repeated, before its parent when memory runs out."""
    with suppress(OSError):  # of another system
        Path("/proc/self/oom_score_adj").write_text(_GOES_FIRST)


def _tie_by_pipe(descriptor: int) -> None:
    """Ends this process and its children when the other end of a pipe is closed, as by the parent's end."""
    import threading

    def wait() -> None:
        os.read(descriptor, 1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()


def _main(lifeline: str, parent: str, way: str, hears: str, without: str, *command: str) -> None:
    """Runs a command, in this process if it is `-m` and a module.

    Args:
        lifeline: descriptor of a socket. A byte tells the parent that this process is tied.
        parent: process id of the parent.
        way: BY_KERNEL, or BY_PIPE, which ties modules only.
        hears: DEAF or LISTENING.
        without: package that a module cannot import, or "".
    """
    if hears == DEAF:
        ignore(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    tie_by_kernel(int(parent))
    go_first_without_memory()
    descriptor = int(lifeline)
    os.write(descriptor, b".")
    if command[0] != "-m":
        os.execvp(command[0], command)
    if way == BY_PIPE:
        _tie_by_pipe(descriptor)
    else:
        os.close(descriptor)
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = ""  # the current folder, as for `python -m`, instead of the folder of this file
    if without:
        sys.modules[without] = None  # type: ignore[assignment]
    import runpy

    sys.argv = list(command[1:])
    runpy.run_module(command[1], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
