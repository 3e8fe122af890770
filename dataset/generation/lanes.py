"""Work on several devices side by side: a lane takes one item after the other."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from threading import Event
from typing import TypeVar

from ..interruption import claim_interrupts, interrupts_noted

Item = TypeVar("Item")

# Any thread may get a signal; Python handles it in the main one, once that runs again.
_LOOK_EVERY_S = 0.5


def work_in_lanes(
    items: Iterable[Item],
    devices: Sequence[int],
    work: Callable[[Item, int, Event], None],
    on_interrupt: Callable[[], None] = lambda: None,
) -> None:
    """Calls `work(item, device, stop)` for every item, with one lane for each entry of `devices`.

    A single lane is the thread of the caller. The first exception, Ctrl-C included, sets `stop`, which `work`
    looks at between its steps, and is raised once every lane has come to its end. `on_interrupt` is called
    when Ctrl-C is heard; further ones until that end change nothing.
    """
    waiting: queue.SimpleQueue[Item] = queue.SimpleQueue()
    for item in items:
        waiting.put(item)
    stop = Event()

    def lane(device: int) -> None:
        while not stop.is_set():
            try:
                item = waiting.get_nowait()
            except queue.Empty:
                return
            work(item, device, stop)

    if len(devices) == 1:
        lane(devices[0])
        return
    # A signal's exception is lost where it is raised in what ignores exceptions, such as a finaliser.
    with interrupts_noted() as came, ThreadPoolExecutor(len(devices), thread_name_prefix="lane") as threads:
        try:
            working = {threads.submit(lane, device) for device in devices}
            while working:
                done, working = wait(working, timeout=_LOOK_EVERY_S, return_when=FIRST_COMPLETED)
                for ended in done:
                    ended.result()
                claim_interrupts()
                if came:
                    on_interrupt()
                    raise KeyboardInterrupt
        finally:
            stop.set()
