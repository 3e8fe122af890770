"""Disks that refuse to be written, also for root, whom permissions do not bind."""

from __future__ import annotations

import builtins
import errno
import io
import os
from pathlib import Path
from typing import Any

import pytest

READ_ONLY, FULL = errno.EROFS, errno.ENOSPC


def refuse_writing(monkeypatch: pytest.MonkeyPatch, folder: Path, number: int = READ_ONLY) -> None:
    """Lets every change below `folder` fail in this process with the error `number`.

    A disk that is read-only refuses to open a file for writing; a full one, to write into it.
    """
    inside = f"{folder.resolve()}{os.sep}"

    def refused(path: Any) -> bool:
        if not isinstance(path, str | os.PathLike):  # a descriptor
            return False
        return os.fspath(Path.cwd() / path).startswith(inside)

    def error(path: Any) -> OSError:
        return OSError(number, os.strerror(number), os.fspath(path))

    real_open, real_os_open = io.open, os.open

    def checked_open(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        writes = set(mode) & set("wax+")
        if writes and refused(file):
            raise error(file)
        return real_open(file, mode, *arguments, **options)

    def checked_os_open(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and refused(path):
            raise error(path)
        return real_os_open(path, flags, *arguments, **options)

    monkeypatch.setattr(io, "open", checked_open)
    monkeypatch.setattr(builtins, "open", checked_open)
    monkeypatch.setattr(os, "open", checked_os_open)
    for name in ("mkdir", "rename", "replace", "truncate", "unlink", "rmdir", "link", "symlink", "utime"):
        monkeypatch.setattr(os, name, _checked(getattr(os, name), refused, error))


def _checked(real: Any, refused: Any, error: Any) -> Any:
    def call(*arguments: Any, **options: Any) -> Any:
        # A folder that is there is reported as such even on a read-only disk.
        there = real.__name__ == "mkdir" and Path(arguments[0]).is_dir()
        for path in () if there else arguments[:2]:
            if refused(path):
                raise error(path)
        return real(*arguments, **options)

    return call
