"""Ctrl-C without a crash: TVM's search cannot be left by an exception, so it waits for its end.

TVM's arithmetic asks the solver Z3, which takes SIGINT for itself while it checks: one that comes then ends
the check and is lost, so that a second one may be needed. Of two threads that check at once, the later may
leave Z3's handler behind for good; `claim_interrupts` puts Python's back.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts_noted() -> Iterator[list[int]]:
    """Holds back SIGINT inside the block; the list that it yields grows by one for each that came.

    For a block that looks at the list itself. Outside of the main thread, where Python delivers no signals,
    it stays empty.
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


def claim_interrupts() -> None:
    """Puts Python's handler of SIGINT back in place, whichever native code has put its own there."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.getsignal(signal.SIGINT))


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Holds back SIGINT inside the block and raises KeyboardInterrupt at its end if one came.

    In MetaSchedule's search, Python is called back from C++ threads; an exception raised there by a signal
    takes the process down.
    """
    with interrupts_noted() as came:
        yield
    if came:
        raise KeyboardInterrupt
