"""A process's temporary folder, which the next process removes where this one was killed."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TextIO

try:
    import fcntl
except ImportError:  # not on Windows, where folders of killed processes stay
    fcntl = None  # type: ignore[assignment]

PREFIX = "foretune-"
_LOCK = "in-use"


class ScratchFolder:
    """A folder `foretune-<pid>-...` for temporary files, whose owner holds a lock in it.

    The system lets go of the lock when the process ends, however it ends; a process number alone could be
    another process by then, or one of another container that shares the folder of temporary files.
    """

    def __init__(self) -> None:
        remove_abandoned()
        self._folder = tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-")
        self._lock = (self.path / f"{_LOCK}.new").open("w")
        if fcntl:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Locked first and named then: nobody sees it free while its owner lives.
        (self.path / f"{_LOCK}.new").rename(self.path / _LOCK)

    @property
    def path(self) -> Path:
        return Path(self._folder.name)

    def cleanup(self) -> None:
        """Removes the folder with all that is in it."""
        self._lock.close()
        self._folder.cleanup()


def remove_abandoned() -> list[Path]:
    """Removes this user's folders whose process is gone, and returns them."""
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
    except OSError:  # removed this moment
        return False


def _take(path: Path) -> TextIO | None:
    """The lock, None where its owner lives or where there is none."""
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
