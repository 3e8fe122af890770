"""Errors a user can act on, and how a command reports them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""Exit status of a command that the user interrupted: what shells give for SIGINT."""


class UserError(Exception):
    """An error whose message alone tells the user which field or file is wrong and what to do next.

    Subclass it together with a built-in where callers may expect one:
    `class SplitError(UserError, ValueError)`.
    """


@contextmanager
def exits_cleanly() -> Iterator[None]:
    """Turns a `UserError` into one `error: ...` line on stderr and exit status 2, Ctrl-C into status 130.

    Works as a context and as a decorator; under `@hydra.main` it must be the inner of the two, because Hydra
    prints a traceback for every exception that reaches it. `HYDRA_FULL_ERROR=1` keeps the traceback.
    """
    try:
        yield
    except UserError as error:
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from error
    except KeyboardInterrupt as error:
        print("interrupted; the same command goes on from what was kept", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from error
