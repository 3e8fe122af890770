"""Errors that a user can act on, and their report by a command."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""Exit status of a command that the user interrupted: shells return it for SIGINT."""

FULL_ERROR = "HYDRA_FULL_ERROR"
"""Environment variable of Hydra's; 1 asks for tracebacks."""


class UserError(Exception):
    """An error whose message names the wrong field or file and the next step.

    Subclass it together with a built-in where callers may expect one:
    `class SplitError(UserError, ValueError)`.
    """


@contextmanager
def exits_cleanly() -> Iterator[None]:
    """Turns a `UserError` into one `error: ...` line on stderr and exit status 2, Ctrl-C into status 130.

    Works as a context and as a decorator. Under `@hydra.main` it must be the inner of the two: Hydra prints a
    traceback for every exception that reaches it. `HYDRA_FULL_ERROR=1` keeps the traceback.
    """
    try:
        yield
    except UserError as error:
        if shows_tracebacks():
            raise
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from error
    except KeyboardInterrupt as error:
        print("interrupted; the same command continues from the stored results", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from error


def shows_tracebacks() -> bool:
    """Whether the user asked for the traceback of every error."""
    return os.environ.get(FULL_ERROR) == "1"


def first_line(error: Exception) -> str:
    """First line of an error's message, or the error's type if it has none."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
