"""Archive of a bundle: a zip file with a few named members, read into memory without trusting it.

Nothing is unpacked to a path. Every limit is checked before a member is expanded.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import BinaryIO

from ...errors import UserError
from ...files import CannotWriteError, written_whole

MOST_FILE_BYTES = 128 * 1024**2
"""Maximum size of a bundle; all 473 records of a ResNet-18 need 0.3 MB."""

MOST_MEMBER_BYTES = 512 * 1024**2
"""Maximum size of an expanded member; its lines need a few times as much memory."""

MOST_RATIO = 250
"""Maximum ratio of expanded to compressed size; records of one task reach 40."""

_MOST_DIRECTORY_BYTES = 64 * 1024
"""Maximum size of the zip's list of members, which zipfile reads as a whole."""

_END = struct.Struct("<4s4H2LH")
_END_SIGNATURE = b"PK\5\6"

_ENCRYPTED = 0x1
_SOME_DATE = (1980, 1, 1, 0, 0, 0)

_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, struct.error),
    *(RuntimeError, ValueError, OverflowError),
)
"""Exceptions that zipfile raises for damaged archives."""


class BundleError(UserError, ValueError):
    """A bundle cannot be read, written or imported."""


def write_archive(path: Path, members: Mapping[str, bytes]) -> None:
    """Writes a zip file whole or not at all; equal members give identical files.

    Raises BundleError if the file exists, cannot be written, or would be refused by `read_archive`.
    """
    if path.exists():
        raise BundleError(f"bundle={path}: exists; remove it, or name another file")
    try:
        with written_whole(path, field="bundle") as partial, partial.open("w+b") as file:
            with zipfile.ZipFile(file, "w") as archive:
                for name, content in members.items():
                    info = zipfile.ZipInfo(name, _SOME_DATE)
                    info.external_attr = (stat.S_IFREG | 0o644) << 16
                    archive.writestr(info, content, zipfile.ZIP_DEFLATED)
            file.flush()
            _read(path, file, list(members))
    except CannotWriteError as error:
        raise BundleError(str(error)) from error


def read_archive(path: Path, names: Collection[str], optional: Collection[str] = ()) -> dict[str, bytes]:
    """Content of each member; the archive must hold the members `names`, and may hold those of `optional`.

    Raises BundleError with the name of the member if it is missing, unknown, duplicate, outside the archive,
    a link, encrypted, too large or expands too far. A damaged file raises BundleError too.
    """
    try:
        with path.open("rb") as file:
            return _read(path, file, names, optional)
    except BundleError:
        raise
    except OSError as error:
        raise BundleError(
            f"bundle={path}: {error.strerror or error}; give a file that foretune bundle export wrote"
        ) from error
    except _DAMAGE as error:
        raise damaged(path, str(error) or type(error).__name__) from error


def _read(
    path: Path, file: BinaryIO, names: Collection[str], optional: Collection[str] = ()
) -> dict[str, bytes]:
    _check_file(path, file)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        _check_members(path, members, [*names, *optional])
        if missing := [name for name in names if name not in archive.namelist()]:
            raise BundleError(
                f"bundle={path}: has no member {missing[0]!r}; give a file that foretune bundle export wrote"
            )
        return {member.filename: archive.read(member) for member in members}


def damaged(path: Path, reason: str) -> BundleError:
    """The error for a truncated or modified bundle."""
    return BundleError(
        f"bundle={path}: truncated or damaged ({reason}); copy it again from where it was made"
    )


def _check_file(path: Path, file: BinaryIO) -> None:
    """Checks the conditions that must hold before zipfile reads the list of members."""
    size = file.seek(0, os.SEEK_END)
    if size > MOST_FILE_BYTES:
        raise BundleError(
            f"bundle={path}: has {size:,} bytes, over the limit of {MOST_FILE_BYTES:,}; export fewer "
            "schedules, with records=best or network=NAME"
        )
    file.seek(max(0, size - _END.size))
    end = file.read(_END.size)
    # A bundle has no comment, so this record ends the file.
    if len(end) < _END.size or not end.startswith(_END_SIGNATURE):
        raise damaged(path, "it does not end as a zip file does")
    directory_bytes = _END.unpack(end)[5]
    if directory_bytes > _MOST_DIRECTORY_BYTES:
        raise BundleError(
            f"bundle={path}: its list of members has {directory_bytes:,} bytes, over the limit of "
            f"{_MOST_DIRECTORY_BYTES:,}; give a file that foretune bundle export wrote"
        )
    file.seek(0)


def _check_members(path: Path, members: Collection[zipfile.ZipInfo], names: Collection[str]) -> None:
    seen: set[str] = set()
    for member in members:
        if problem := _problem(member, seen, names):
            raise BundleError(
                f"bundle={path}: its member {member.filename!r} {problem}; do not use this file, and ask "
                "for one that foretune bundle export wrote"
            )
        seen.add(member.filename)


def _problem(member: zipfile.ZipInfo, seen: Collection[str], names: Collection[str]) -> str:
    """Reason to refuse a member, or ""."""
    name = member.filename
    if _leaves_its_folder(name):
        return "has a path outside the bundle"
    if name in seen:
        return "is there twice"
    if name not in names:
        return f"is none of {', '.join(names)}"
    if not stat.S_ISREG(mode := member.external_attr >> 16) and stat.S_IFMT(mode):
        return "is a link or another special file"
    if member.flag_bits & _ENCRYPTED:
        return "is encrypted"
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"is compressed by the method {member.compress_type}, not by deflate"
    if member.file_size > MOST_MEMBER_BYTES:
        return f"expands to {member.file_size:,} bytes, over the limit of {MOST_MEMBER_BYTES:,}"
    if member.file_size > MOST_RATIO * max(member.compress_size, 1):
        return f"expands to over {MOST_RATIO} times its size, as a zip bomb does"
    return ""


def _leaves_its_folder(name: str) -> bool:
    """Whether a member's path is absolute or leaves the archive, on any operating system."""
    return any(
        path.is_absolute() or path.drive or path.root or ".." in path.parts
        for path in (PurePosixPath(name), PureWindowsPath(name))
    )
