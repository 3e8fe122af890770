"""Deferred handling of Ctrl-C and its like, as an exception inside TVM's search would crash the process.

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

from ...signals import ENDING, Interrupted, silence_lost_streams


@contextmanager
def interrupts_recorded() -> Iterator[list[int]]:
    """Record signals that interrupt inside the block instead of raising; the list gets the number of each.

    The block must check the list itself. Outside of the main thread Python delivers no signals, and the list
    stays empty.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def remember(number: int, frame: FrameType | None) -> None:
        came.append(number)
        silence_lost_streams()

    # SIGTERM and SIGHUP interrupt a command only, and not every process that uses this package.
    recorded = [signal.SIGINT, *(number for number in ENDING[1:] if callable(signal.getsignal(number)))]
    before = {number: signal.signal(number, remember) for number in recorded}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def restore_interrupt_handler() -> None:
    """Reinstall Python's SIGINT handler, which native code may have replaced."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.getsignal(signal.SIGINT))


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Defer signals that interrupt inside the block and raise Interrupted at its end if one came.

    MetaSchedule's search calls Python from C++ threads; an exception raised there would crash the process.
    """
    with interrupts_recorded() as came:
        yield
    if came:
        raise Interrupted(came[0])
