"""TVM's own messages about a conversion that fails, kept away from the user."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator

_STDERR = 2


@contextlib.contextmanager
def without_dumps() -> Iterator[None]:
    """Keeps what TVM prints in the block away from the user if the block raises an error.

    TVM's importers print the inputs of a node that fails, and its builders warn on standard error when they
    are destroyed. The error of the block tells what is wrong. If the block succeeds, the lines on standard
    error are written at its end.
    """
    with tempfile.TemporaryFile() as written:
        try:
            before = os.dup(_STDERR)
        except OSError:  # a process without standard error
            yield
            return
        _flush()
        os.dup2(written.fileno(), _STDERR)
        failed = True
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                yield
            failed = False
        except BaseException as error:
            _release(error)
            raise
        finally:
            _flush()
            os.dup2(before, _STDERR)
            os.close(before)
            if not failed:
                written.seek(0)
                os.write(_STDERR, written.read())


def _release(error: BaseException | None) -> None:
    """Destroys TVM's builders, which the frames of an error keep alive, while nobody reads their warnings."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
    gc.collect()


def _flush() -> None:
    if sys.stderr is not None:
        sys.stderr.flush()
