"""Filter for a warning that TVM prints for each weight of a library."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

_SCOPE_LINES = (b"Warning: Scope Saving:", b"Warning: Scope Loaded:")
_STDERR = 2


@contextmanager
def without_scope_warnings() -> Iterator[None]:
    """Removes TVM's lines about memory scopes from standard error within the block.

    C++ code prints one line per weight, and TVM has no setting that disables them. All other lines are
    written at the end of the block.
    """
    if sys.stderr is not None:
        sys.stderr.flush()
    with tempfile.TemporaryFile() as written:
        try:
            before = os.dup(_STDERR)
        except OSError:  # a process without standard error
            yield
            return
        os.dup2(written.fileno(), _STDERR)
        try:
            yield
        finally:
            if sys.stderr is not None:
                sys.stderr.flush()
            os.dup2(before, _STDERR)
            os.close(before)
            written.seek(0)
            for line in written:
                if not any(scope in line for scope in _SCOPE_LINES):
                    os.write(_STDERR, line)
