"""Locks of folders that only one command may write to. They end with the process that holds them."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path


class LockedError(Exception):
    """Another process holds a lock; the message describes it."""


@contextmanager
def locked(path: Path, wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """Holds the lock of a file exclusively during the block.

    If another process holds the lock, calls `wait` with its description and waits for it; without `wait`,
    raises LockedError. No lock is held in a read-only folder and on a file system without locks.
    """
    with ExitStack() as stack:
        with suppress(OSError):
            file = stack.enter_context(path.open("a+", encoding="utf-8"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                holder = file.read().strip() or "another process"
                if wait is None:
                    raise LockedError(holder) from error
                wait(holder)
                fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
        yield
