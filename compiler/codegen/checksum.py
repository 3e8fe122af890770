"""Checksum of an exported library: the last bytes of the file, after the part that the system loads.

A loader reads the sections of a library that its header names, and ignores bytes after them.
"""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path
from typing import BinaryIO

_ELF_HEADER = struct.Struct("<4sB35xQ10xHH")
"""Magic, class, and offset, size and number of the section headers, the last part of a 64-bit library."""
_ELF_MAGIC, _ELF_64_BITS = b"\x7fELF", 2

_MARK = b"\nforetune-sha256:"
_LENGTH = len(_MARK) + hashlib.sha256().digest_size
_BLOCK = 1 << 20


def elf_bytes(file: BinaryIO) -> int | None:
    """Bytes of an open library up to the end of its section headers; None for a file of another format.

    0 for a 32-bit library, whose header has another layout.
    """
    file.seek(0)
    head = file.read(_ELF_HEADER.size)
    if not head.startswith(_ELF_MAGIC):
        return None
    if len(head) < _ELF_HEADER.size:
        return _ELF_HEADER.size
    _, bits, offset, size, number = _ELF_HEADER.unpack(head)
    return offset + size * number if bits == _ELF_64_BITS else 0


def append_checksum(path: Path) -> None:
    """Appends the checksum to a library. Files of other formats than ELF stay as they are."""
    with path.open("r+b") as file:
        if not elf_bytes(file):
            return
        digest = _digest(file, file.seek(0, os.SEEK_END))
        file.seek(0, os.SEEK_END)
        file.write(_MARK + digest)


def has_right_checksum(file: BinaryIO) -> bool | None:
    """Whether an open library is as it was exported.

    None without a checksum, as in older releases' libraries.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _LENGTH))
    end = file.read()
    if end.startswith(_MARK):
        return end[len(_MARK) :] == _digest(file, size - _LENGTH)
    whole = elf_bytes(file)
    # The linker writes nothing after the section headers, so this is what is left of a checksum.
    return False if whole and 0 < size - whole <= _LENGTH else None


def _digest(file: BinaryIO, size: int) -> bytes:
    """SHA-256 of the first `size` bytes of a file."""
    found = hashlib.sha256()
    file.seek(0)
    while size > 0 and (block := file.read(min(size, _BLOCK))):
        found.update(block)
        size -= len(block)
    return found.digest()
