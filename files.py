"""Files that are written whole or not at all, and one error for disks that are full or read-only."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import UserError

_REASONS = frozenset(
    [
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO),
        *(errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG),
    ]
)
"""Numbers of system errors that say that a path cannot be written."""


class CannotWriteError(UserError, OSError):
    """A file or a folder cannot be written."""

    @property
    def reason(self) -> str:
        """Reason that the system gave."""
        return str(self.__cause__.strerror) if isinstance(self.__cause__, OSError) else ""


def cannot_write(error: OSError, path: Path, field: str = "", kept: str = "") -> CannotWriteError:
    """Error for the user that names a path, the option `field` that gave it, and what is `kept`."""
    name = f"{field}={path}" if field else str(path)
    after = f"; {kept}" if kept else ""
    reason = error.strerror or error
    return CannotWriteError(
        f"{name}: cannot be written ({reason}): free some space, or name another path{after}"
    )


@contextmanager
def disk_errors(path: Path, *, field: str = "", kept: str = "") -> Iterator[None]:
    """Turns the error of a full or read-only disk inside the block into CannotWriteError.

    The message names the file that the system names, or else `path`; the option `field` that gave `path`; and
    what is `kept` after the error.
    """
    try:
        yield
    except CannotWriteError as error:
        if not kept or kept in str(error):
            raise
        raise CannotWriteError(f"{error}; {kept}") from error.__cause__
    except OSError as error:
        if error.errno not in _REASONS:
            raise
        named = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else path
        raise cannot_write(error, named, field if named == path else "", kept) from error


@contextmanager
def written_whole(path: Path, *, field: str = "", kept: str = "") -> Iterator[Path]:
    """Yields a path beside `path`. What the block writes there replaces `path`, whole or not at all.

    Folders above are created. If the block raises, `path` stays as it was and nothing is left beside it.
    Raises CannotWriteError; `field` and `kept` are those of `disk_errors`.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with disk_errors(path, field=field, kept=kept):
        try:
            make_folder(path.parent)
            yield partial
            if partial.is_file():
                _flush(partial)
            partial.replace(path)
        except OSError as error:
            error.filename = os.fspath(path)  # not the name of the partial file
            raise
        finally:
            with suppress(OSError):
                shutil.rmtree(partial) if partial.is_dir() else partial.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Creates a folder and those above it; raises NotADirectoryError if a file has its name.

    Raises PermissionError in a file system without new folders, such as /proc.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError as error:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), os.fspath(path)) from error
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(path)) from error


def write_whole(path: Path, content: str | bytes, *, field: str = "", kept: str = "") -> None:
    """Replaces a file with another one, whole or not at all. Raises CannotWriteError."""
    data = content.encode() if isinstance(content, str) else content
    with written_whole(path, field=field, kept=kept) as partial:
        partial.write_bytes(data)


def check_writable(path: Path, field: str, *, folder: bool = False) -> None:
    """Raises CannotWriteError for a file, or a `folder`, that cannot be written, before any work for it.

    Writes a small file into the folder and removes it again. Folders that did not exist are removed, too.
    """
    where = path if folder else path.parent
    missing = [one for one in (where, *where.parents) if not one.exists()]
    probe = where / f".{path.name}.{os.getpid()}.probe"
    with disk_errors(path, field=field):
        try:
            if not folder and path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            make_folder(where)
            probe.write_bytes(bytes(_PROBE_BYTES))
            _flush(probe)
        except OSError as error:
            error.filename = os.fspath(path)
            raise
        finally:
            with suppress(OSError):
                probe.unlink(missing_ok=True)
            for made in missing:
                with suppress(OSError):
                    made.rmdir()


_PROBE_BYTES = 64 * 1024
"""Bytes of the file that `check_writable` writes; a report has about as many."""


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
