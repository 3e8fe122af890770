"""Temporary folder of a process; a later process removes it if its owner was killed."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TextIO

try:
    import fcntl
except ImportError:  # on Windows, where folders of killed processes are not removed
    fcntl = None  # type: ignore[assignment]

PREFIX = "foretune-"
_LOCK = "in-use"


class ScratchFolder:
    """Temporary folder `foretune-<pid>-...` with a lock that its owner holds.

    The system releases the lock whenever the process ends. A process id would not suffice, because another
    process may have the same id by then, even in another container that shares the temporary folder.
    """

    def __init__(self) -> None:
        remove_stale_folders()
        self._folder = tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-")
        self._lock = (self.path / f"{_LOCK}.new").open("w")
        if fcntl:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        # The lock is taken before it gets its final name, so it never looks free while its owner lives.
        (self.path / f"{_LOCK}.new").rename(self.path / _LOCK)

    @property
    def path(self) -> Path:
        return Path(self._folder.name)

    def cleanup(self) -> None:
        """Remove the folder and its contents."""
        self._lock.close()
        self._folder.cleanup()


def remove_stale_folders() -> list[Path]:
    """Remove this user's folders whose owner is gone; returns their paths."""
    found: list[Path] = []
    if not fcntl:
        return found
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        if _is_own_folder(path) and (lock := _take(path / _LOCK)) is not None:
            with lock:
                shutil.rmtree(path, ignore_errors=True)
                found.append(path)
    return found


def _is_own_folder(path: Path) -> bool:
    try:
        return not path.is_symlink() and path.is_dir() and path.stat().st_uid == os.getuid()
    except OSError:  # another process just removed it
        return False


def _take(path: Path) -> TextIO | None:
    """Acquire the lock; None if its owner lives or the file does not exist."""
    try:
        file = path.open("r+")
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file
