"""Deferred handling of Ctrl-C, as an exception inside TVM's search would crash the process.

TVM's arithmetic uses the solver Z3, which handles SIGINT itself while it runs: the signal then only ends the
check and is lost, so that a second Ctrl-C may be needed. If two threads run checks at once, Z3's handler may
stay installed; `restore_interrupt_handler` reinstalls Python's.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts_recorded() -> Iterator[list[int]]:
    """Record SIGINT inside the block instead of raising; the yielded list gets an entry for each signal.

    The block must check the list itself. Outside of the main thread Python delivers no signals, and the list
    stays empty.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def remember(number: int, frame: FrameType | None) -> None:
        came.append(number)

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


def restore_interrupt_handler() -> None:
    """Reinstall Python's SIGINT handler, which native code may have replaced."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.getsignal(signal.SIGINT))


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Defer SIGINT inside the block and raise KeyboardInterrupt at its end if a signal came.

    MetaSchedule's search calls Python from C++ threads; an exception raised there would crash the process.
    """
    with interrupts_recorded() as came:
        yield
    if came:
        raise KeyboardInterrupt
