"""Guard of the checkout: tests do not read its `outputs/`, write nothing in it, and start no process in it.

Users work in a checkout that has results of their own. A test that sees them passes or fails by chance.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from .paths import ROOT

_OUTPUTS = ROOT / "outputs"
_CACHES = {"__pycache__", ".pytest_cache", ".hypothesis", ".mypy_cache", ".ruff_cache"}
"""Folders that Python and the test tools write, whatever the tests do."""

_READING = {"open", "os.listdir", "os.scandir"}
_CHANGING = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"}
_LINKING = {"os.link", "os.symlink"}
_HEARD = frozenset({*_READING, *_CHANGING, *_LINKING, "subprocess.Popen"})
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class CheckoutTouchedError(AssertionError):
    """A test touched the checkout that it is started from."""


class CheckoutGuard:
    """Audit hook of this process. It raises CheckoutTouchedError, and keeps what it met in `seen`."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        """Events that were refused."""
        self._on = True

        # Python reports each call of `id`, thousands for the settings of one command: most events must cost
        # little more than a call.
        def heard(event: str, arguments: tuple[Any, ...]) -> None:
            if event in _HEARD and self._on:
                self._check(event, arguments)

        sys.addaudithook(heard)

    def stop(self) -> None:
        """Ends the watch; Python keeps audit hooks until its end."""
        self._on = False

    def _check(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _READING:
            path = _path(arguments[0])
            if path is not None and (_is_in(path, _OUTPUTS) or (_writes(event, arguments) and _kept(path))):
                self._refuse(event, path)
        elif event == "subprocess.Popen":
            path = _path(arguments[2] or Path.cwd())
            if path is not None and _is_in(path, ROOT):
                self._refuse(f"process {arguments[1]}", path)
        else:
            changed = arguments[1:2] if event in _LINKING else arguments[:2]
            for path in filter(None, map(_path, changed)):
                if _kept(path):
                    self._refuse(event, path)

    def _refuse(self, event: str, path: str) -> None:
        self.seen.append(f"{event} {path}")
        raise CheckoutTouchedError(f"{event} {path}: a test works in its tmp_path, and not in the checkout")


def _path(argument: Any) -> str | None:
    """Absolute path of an event's argument; None for a file descriptor."""
    if not isinstance(argument, str | bytes | os.PathLike):
        return None
    return os.path.normpath(os.path.join(os.getcwd(), os.fsdecode(argument)))  # noqa: PTH109, PTH118


def _is_in(path: str, folder: Path) -> bool:
    return path == str(folder) or path.startswith(f"{folder}{os.sep}")


def _kept(path: str) -> bool:
    """Whether a path belongs to the checkout, and not to a cache in it."""
    return _is_in(path, ROOT) and not _CACHES & set(Path(path).parts)


def _writes(event: str, arguments: tuple[Any, ...]) -> bool:
    if event != "open":
        return False
    _, mode, flags = arguments
    if isinstance(mode, str):
        return bool(set(mode) & set("wax+"))
    return isinstance(flags, int) and bool(flags & _WRITE_FLAGS)
