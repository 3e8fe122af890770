"""Signals that end a command: Ctrl-C, SIGTERM and SIGHUP all raise KeyboardInterrupt in its main thread."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TextIO

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

CONTINUES = "interrupted; the same command continues from the stored results"


class Interrupted(KeyboardInterrupt):
    """Interruption of a command by a signal, with the message for the user."""

    def __init__(self, number: int = signal.SIGINT, message: str = CONTINUES) -> None:
        super().__init__(message)
        self.number = number
        self.message = message


def as_interrupted(error: KeyboardInterrupt) -> Interrupted:
    """The error itself, or one for Ctrl-C if Python raised it."""
    return error if isinstance(error, Interrupted) else Interrupted()


def exit_status(number: int) -> int:
    """Exit status of a command that a signal ended: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP."""
    return 128 + number


@contextmanager
def signals_interrupt(*, to_the_end: bool = False) -> Iterator[None]:
    """Lets SIGTERM and SIGHUP raise Interrupted inside the block.

    The second one of them is ignored, as services and terminals that close send several. Signals that this
    process was started to ignore, as by nohup, are left alone. Does nothing outside of the main thread.

    With `to_the_end`, this process ends after the block, which decided on the exit status. It then ignores
    ENDING: its threads and functions of atexit may take a while, and a signal would replace the status.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    further = [number for number in ENDING[1:] if signal.getsignal(number) is signal.SIG_DFL]

    def interrupt(number: int, frame: FrameType | None) -> None:
        for each in further:
            signal.signal(each, signal.SIG_IGN)
        silence_lost_streams()
        raise Interrupted(number)

    for number in further:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in ENDING if to_the_end else further:
            signal.signal(number, signal.SIG_IGN if to_the_end else signal.SIG_DFL)


@contextmanager
def keeps_handlers() -> Iterator[None]:
    """Takes back the handlers of ENDING that a library registers inside the block, as Ray does for SIGTERM.

    Does nothing outside of the main thread, where none can be registered.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def silence_lost_streams() -> None:
    """Discards the further output to a closed pipe or terminal, which would raise errors."""
    with suppress(OSError):
        silent = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            if is_lost(stream):
                os.dup2(silent, stream.fileno())
        os.close(silent)


def is_lost(stream: TextIO) -> bool:
    """Whether a stream is a pipe or a terminal whose other end is closed."""
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    except (AttributeError, OSError, ValueError):  # Windows, or a stream without a file
        return False
