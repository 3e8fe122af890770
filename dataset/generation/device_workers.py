"""Worker threads that process the tasks of a run on several devices."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from threading import Event
from typing import TypeVar

from ...compiler.host.interruption import interrupts_recorded, restore_interrupt_handler

Item = TypeVar("Item")

# Any thread may receive a signal; Python handles it in the main thread, as soon as that thread runs again.
_LOOK_EVERY_S = 0.5


def run_device_workers(
    items: Iterable[Item],
    devices: Sequence[int],
    work: Callable[[Item, int, Event], None],
    on_interrupt: Callable[[], None] = lambda: None,
    stop: Event | None = None,
) -> None:
    """Call `work(item, device, stop)` for every item, in one worker thread per entry of `devices`.

    A single worker runs in the caller's thread. The first exception, including Ctrl-C, sets `stop`, which
    `work` should check between steps; it is raised once all workers have ended. A caller may pass its own
    `stop`. `on_interrupt` is called at the first Ctrl-C, and later ones are ignored until then.
    """
    waiting: queue.SimpleQueue[Item] = queue.SimpleQueue()
    for item in items:
        waiting.put(item)
    stop = stop or Event()

    def worker(device: int, stop: Event = stop) -> None:
        while not stop.is_set():
            try:
                item = waiting.get_nowait()
            except queue.Empty:
                return
            work(item, device, stop)

    if len(devices) == 1:
        worker(devices[0])
        return
    # A signal handler's exception would be lost in code that ignores exceptions, such as a finaliser.
    with interrupts_recorded() as came, ThreadPoolExecutor(len(devices), "device-worker") as threads:
        try:
            working = {threads.submit(worker, device) for device in devices}
            while working:
                done, working = wait(working, timeout=_LOOK_EVERY_S, return_when=FIRST_COMPLETED)
                for ended in done:
                    ended.result()
                restore_interrupt_handler()
                if came:
                    on_interrupt()
                    raise KeyboardInterrupt
        finally:
            stop.set()
