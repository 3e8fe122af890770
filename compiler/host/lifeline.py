"""Child processes that end with this process, however it ends, even if they are stopped at that moment.

On Linux, the kernel kills them (PR_SET_PDEATHSIG). On other systems, each waits in a thread for the end of a
pipe whose other end only this process holds.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from . import tied

_TIED_WITHIN_S = 10.0
"""Seconds that a new process may take to tie itself; an idle machine takes 0.02."""


class TiedProcess(subprocess.Popen[Any]):
    """Process of a command, in a session of its own. Start it by `start_tied`."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        deaf: bool = False,
        without: str = "",
        pass_fds: Sequence[int] = (),
        **options: Any,
    ) -> None:
        """Starts the process.

        Args:
            command: `-m`, a module and its arguments, for this Python; or any command.
            deaf: ignore Ctrl-C, SIGTERM and SIGHUP, because this process handles them and ends the other.
            without: package that the module cannot import, or "".
            pass_fds: descriptors that it inherits.
            options: other options of `subprocess.Popen`.
        """
        self._lifeline, theirs = socket.socketpair()
        way = tied.BY_KERNEL if tied.KERNEL_ENDS_CHILDREN else tied.BY_PIPE
        hears = tied.DEAF if deaf else tied.LISTENING
        facts = [str(theirs.fileno()), str(os.getpid()), way, hears, without]
        with theirs:
            super().__init__(
                [sys.executable, str(Path(tied.__file__).absolute()), *facts, *command],
                pass_fds=[*pass_fds, theirs.fileno()],
                **_group(way),
                **options,
            )

    @property
    def exists(self) -> bool:
        """Whether the process was created."""
        return True

    def wait_until_tied(self) -> None:
        """Waits until the process ends with this one; a process that is stopped earlier might outlive it."""
        self._lifeline.settimeout(_TIED_WITHIN_S)
        with suppress(OSError):
            self._lifeline.recv(1, socket.MSG_PEEK)  # a byte, or the end of a process that has ended

    def wait(self, timeout: float | None = None) -> int:
        """See `subprocess.Popen`."""
        status = super().wait(timeout)
        self._lifeline.close()
        return status

    def kill_group(self) -> None:
        """Kills the process and its children, such as a running compiler."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self.wait()


def _group(way: str) -> dict[str, Any]:
    """Options that give the process a group of its own.

    Systems without a signal at the parent's end continue stopped processes of a group whose parent is gone,
    but only within the session of the parent.
    """
    if way == tied.BY_PIPE and sys.version_info >= (3, 11):
        return {"process_group": 0}
    return {"start_new_session": True}


def start_tied(command: Sequence[str], **options: Any) -> TiedProcess:
    """Starts a process; see `TiedProcess` for the arguments.

    Linux ends a process with the thread that started it, so a thread starts it that lives as long as this
    process. Callers may be in a thread that ends earlier.
    """
    return _starter().start(lambda: TiedProcess(command, **options))


def run_tied(
    command: Sequence[str], *, timeout: float | None = None, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs a command as `subprocess.run` does, with its output as text; see `TiedProcess`."""
    process = start_tied(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    try:
        output, errors = process.communicate(timeout=timeout)
    except BaseException:
        process.kill_group()
        raise
    done = subprocess.CompletedProcess(list(command), process.returncode, output, errors)
    if check:
        done.check_returncode()
    return done


class _Starter:
    """Thread that starts processes until this process ends."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], TiedProcess], Future[TiedProcess]]] = SimpleQueue()
        threading.Thread(target=self._work, name="process-starter", daemon=True).start()

    def start(self, make: Callable[[], TiedProcess]) -> TiedProcess:
        started: Future[TiedProcess] = Future()
        self._calls.put((make, started))
        try:
            return started.result()
        except BaseException:
            started.add_done_callback(_discard)  # after Ctrl-C, nobody owns the process
            raise

    def _work(self) -> None:
        while True:
            make, started = self._calls.get()
            try:
                started.set_result(make())
            except BaseException as error:
                started.set_exception(error)


def _discard(started: Future[TiedProcess]) -> None:
    if started.exception() is None:
        started.result().kill_group()


@cache
def _starter() -> _Starter:
    return _Starter()


if hasattr(os, "register_at_fork"):  # a fork has no threads
    os.register_at_fork(after_in_child=_starter.cache_clear)


@contextmanager
def process_pool(processes: int, *, without: str = "") -> Iterator[ProcessPoolExecutor]:
    """Pool of processes that end with this one; an error or Ctrl-C in the block ends their work at once.

    Enter it in a thread that lasts as long as the block. The processes cannot import the package `without`,
    if it is not "".
    """
    before = set(active_children())
    with ProcessPoolExecutor(processes, get_context("spawn"), _start_in_pool, (without,)) as pool:
        try:
            yield pool
        except BaseException:
            for child in set(active_children()) - before:
                child.kill()
            raise


def _start_in_pool(without: str) -> None:
    tie_child_of_multiprocessing()
    if without:
        sys.modules[without] = None  # type: ignore[assignment]


def tie_child_of_multiprocessing() -> None:
    """Ties this process, which multiprocessing started, to the process that asked for it.

    It also ignores Ctrl-C and SIGHUP, which the other process handles, and ends first when memory runs out.
    """
    tied.ignore(signal.SIGINT, signal.SIGHUP)
    tied.tie_by_kernel(os.getppid())
    tied.go_first_without_memory()
    parent = parent_process()
    if parent is None:
        return
    if not parent.is_alive():
        os._exit(tied.ENDED_BY_PARENT)
    if not tied.KERNEL_ENDS_CHILDREN:
        threading.Thread(target=_end_with, args=(parent.sentinel,), name="lifeline", daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(tied.ENDED_BY_PARENT)
