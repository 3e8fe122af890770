"""Errors that a user can act on, and their report by a command."""

from __future__ import annotations

import atexit
import codecs
import errno
import io
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from .signals import as_interrupted, exit_status, is_lost, silence_lost_streams
from .wording import visible

NO_READER = 141
"""Exit status of a command whose output nobody reads, as in `| head`: shells return it for SIGPIPE."""

FULL_ERROR = "HYDRA_FULL_ERROR"
"""Environment variable of Hydra's; 1 asks for tracebacks."""


_NO_MEMORY = (
    "out of memory; free some, or start fewer processes and smaller batches: the same command continues from "
    "the stored results"
)


_LACKS = ("std::bad_alloc", "can't allocate memory", "can't start new thread")
"""Parts of messages of a RuntimeError that a lack of memory raises."""


class UserError(Exception):
    """An error whose message names the wrong field or file and the next step.

    Subclass it together with a built-in where callers may expect one:
    `class SplitError(UserError, ValueError)`.
    """


@contextmanager
def exits_cleanly() -> Iterator[None]:
    """Turns a `UserError` into one `error: ...` line on stderr and exit status 2, a signal into status 130.

    A reader of the output that goes away, such as `head`, ends the command without a message.

    Works as a context and as a decorator. Under `@hydra.main` it must be the inner of the two: Hydra prints a
    traceback for every exception that reaches it. `HYDRA_FULL_ERROR=1` keeps the traceback.
    """
    try:
        yield
    except UserError as error:
        if shows_tracebacks():
            raise
        print(f"error: {visible(str(error))}", file=sys.stderr)
        raise SystemExit(2) from error
    except BrokenPipeError:
        if not _lost_reader():
            raise  # a pipe to another process
        end_without_reader()
    except (MemoryError, OSError, RuntimeError) as error:
        if shows_tracebacks() or not _lacks_memory(error):
            raise
        print(f"error: {_NO_MEMORY}", file=sys.stderr)
        raise SystemExit(2) from error
    except KeyboardInterrupt as error:
        ended = as_interrupted(error)
        print(ended.message, file=sys.stderr)
        raise SystemExit(exit_status(ended.number)) from error


def _lacks_memory(error: Exception) -> bool:
    """Whether this machine had no memory left for this process."""
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    return any(words in str(error) for words in _LACKS)


def end_process(code: object) -> None:
    """Ends this process with the code of a SystemExit, after its threads and its functions of `atexit`.

    Python would free a million objects one by one, which takes a second after the imports of TVM and torch.
    Below a profiler, and for a code that is a text, Python ends the process as usual.
    """
    if not isinstance(code, int | None) or sys.getprofile() is not None or sys.gettrace() is not None:
        raise SystemExit(code)
    threading._shutdown()  # type: ignore[attr-defined]  # as Python does before the functions of atexit
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code or 0)


def end_without_reader() -> NoReturn:
    """Ends the command quietly, after its output has lost its reader."""
    # Python flushes the streams at its end; without this, it would report the lost reader once more.
    silence_lost_streams()
    raise SystemExit(NO_READER) from None


def _lost_reader() -> bool:
    return is_lost(sys.stdout) or is_lost(sys.stderr)


_PLAIN = str.maketrans({"\N{HORIZONTAL ELLIPSIS}": "~", "\N{PLUS-MINUS SIGN}": "+-", "\N{EM DASH}": "-"})


def print_any_character() -> None:
    """Lets stdout and stderr print characters that their encoding lacks: in a plain form, or as an escape."""

    def replaced(error: UnicodeError) -> tuple[str | bytes, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        plain = error.object[error.start : error.end].translate(_PLAIN)
        return plain.encode("ascii", "backslashreplace").decode("ascii"), error.end

    codecs.register_error("foretune.plain", replaced)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="foretune.plain")


def shows_tracebacks() -> bool:
    """Whether the user asked for the traceback of every error."""
    return os.environ.get(FULL_ERROR) == "1"


def first_line(error: Exception) -> str:
    """First line of an error's message, or the error's type if it has none."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
