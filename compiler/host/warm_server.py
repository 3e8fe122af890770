"""Server side of `warm`: a process that imported a module forks processes that run it.

A fork shares the imports, which take seconds and hundreds of megabytes. It starts in a hundredth of a second,
and ends with its owner, the process at the other end of its channel.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from .tied import tie_by_kernel

IDLE_S = 60.0
"""Seconds without a request and without a child after which a server ends."""

MESSAGE_BYTES = 1 << 17
"""Maximum size of a request."""

PING, PONG = b"ping", b"pong"

STARTED, ENDED = b"started", b"ended"
"""First words of what the channel of a process tells: its id, and its exit status."""


def serve(connection: socket.socket, module: str, idle_s: float | None) -> None:
    """Forks a process for each request, until the other end closes the connection or the server is idle.

    It is idle after `idle_s` seconds, or never if that is None.

    A request is a JSON object (`environment`, `folder`) with three descriptors: the channel of the process,
    its standard error, and the argument of `module`. Through the channel, the process reports its id once it
    is in a session of its own and ends with the server. After its end, the server reports the exit status.
    """
    with suppress(BaseException):  # the first process that runs the module tells what is wrong
        import_module(module)
    gc.collect()
    gc.freeze()  # a collection in a fork would copy the pages of all objects
    wake, woken = socket.socketpair()
    for end in (wake, woken):
        end.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    children: dict[int, socket.socket] = {}
    orphans: set[int] = set()
    while True:
        orphans.intersection_update(children)  # the system may use the id of an ended one again
        owned = {channel: pid for pid, channel in children.items() if pid not in orphans}
        ready, _, _ = select.select([connection, woken, *owned], [], [], idle_s)
        for owner in set(ready).intersection(owned):  # it sends nothing, so it is gone
            orphans.add(owned[owner])
            _kill(owned[owner])
        if woken in ready:
            woken.recv(4096)
            _report_ended(children)
        if connection in ready:
            message, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 3)
            if not message:
                return
            if message == PING:
                connection.send(PONG)
                continue
            channel, errors, argument = descriptors
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for end in (connection, wake, woken, *children.values()):
                    end.close()
                _run(module, argument, errors, channel, **json.loads(message))
            for descriptor in (errors, argument):
                os.close(descriptor)
            children[pid] = socket.socket(fileno=channel)
        if not ready and not children:
            return


def _kill(pid: int) -> None:
    """Kills a child and its children; it may not have a session of its own yet, or may have ended."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def _report_ended(children: dict[int, socket.socket]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with children.pop(pid) as channel:
            _tell(channel, ENDED, os.waitstatus_to_exitcode(status))


def _tell(channel: socket.socket, what: bytes, number: int) -> None:
    with suppress(OSError):  # the owner may be gone
        channel.send(b"%s %d" % (what, number))


def _run(
    module: str, argument: int, errors: int, channel: int, environment: Mapping[str, str], folder: str
) -> None:
    """Runs the module as `python -m` would, and ends this process."""
    parent = os.getppid()
    status = 1
    try:
        os.setsid()
        tie_by_kernel(parent)
        with socket.socket(fileno=channel) as owner:
            _tell(owner, STARTED, os.getpid())
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor, standard in ((nothing, 0), (nothing, 1), (errors, 2)):
            os.dup2(descriptor, standard)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = [module, str(argument)]
        status = _run_module(module)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stderr.flush()
        finally:
            os._exit(status)


def _run_module(module: str) -> int:
    import runpy

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the module is imported already, on purpose
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def main(words: Sequence[str]) -> Any:
    """Entry point: the descriptor of the connection, the module, and the idle seconds as JSON."""
    descriptor, module, idle_s = words
    serve(socket.socket(fileno=int(descriptor)), module, json.loads(idle_s))


if __name__ == "__main__":
    main(sys.argv[1:])
