"""Processes forked from a warm one, which has imported their module.

The first request for a module starts its server (`warm_server`), which ends when it is idle for a minute. The
requests wait for its imports, and so the processes of one module pay them once. Forks of a process with a
`Lender` share its servers, and so pay them once in all.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from .lifeline import TiedProcess, start_tied
from .warm_server import IDLE_S, MESSAGE_BYTES, PING, STARTED

WORKS_HERE = sys.platform == "linux"
"""Whether processes can be forked and are ended by the kernel with their parent."""

_TRUSTED_S = IDLE_S / 2
"""Seconds after its last process in which a server is not asked whether it still serves."""

_PING_S = 5.0
"""Seconds that a server may take to answer whether it still serves."""


class Child(Protocol):
    """Process that runs a module: forked, or started anew."""

    @property
    def exists(self) -> bool:
        """Whether the process was created. One whose imports are not ready is created later."""

    @property
    def pid(self) -> int:
        """Process id; waits until the process exists."""

    def poll(self) -> int | None:
        """Exit status, negative for a signal; None while the process runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Exit status, at the end of the process."""

    def kill_group(self) -> None:
        """Kills the process and its children."""

    def wait_until_tied(self) -> None:
        """Waits until the process ends with this one."""


class ForkedProcess:
    """Process of a warm server, in a session of its own. It exists as soon as the server has its imports."""

    def __init__(self, channel: socket.socket) -> None:
        """`channel` tells the process id, and later the exit status."""
        self._channel = channel
        self._reading = threading.Lock()
        self._pid: int | None = None
        self.returncode: int | None = None

    @property
    def exists(self) -> bool:
        """See Child."""
        return self._read(0.0, pid=True) and self._pid is not None

    @property
    def pid(self) -> int:
        """See Child. Raises ProcessLookupError if the server ended before."""
        self._read(None, pid=True)
        if self._pid is None:
            raise ProcessLookupError("the server of the process has ended")
        return self._pid

    def poll(self) -> int | None:
        """See Child."""
        self._read(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """See Child. Raises subprocess.TimeoutExpired."""
        if not self._read(timeout):
            raise subprocess.TimeoutExpired("forked process", timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def kill_group(self) -> None:
        """See Child."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self.wait()

    def wait_until_tied(self) -> None:
        """See Child."""
        self._read(None, pid=True)

    def _read(self, timeout_s: float | None, *, pid: bool = False) -> bool:
        """Reads what the server told, up to the process id or the exit status; False after the time-out."""
        with self._reading:
            while self.returncode is None and not (pid and self._pid is not None):
                self._channel.settimeout(timeout_s)
                try:
                    told = self._channel.recv(64)
                except (BlockingIOError, TimeoutError):
                    return False
                except OSError:
                    told = b""
                if not told:  # the server was killed, and its processes with it
                    self.returncode = -signal.SIGKILL
                elif told.startswith(STARTED):
                    self._pid = int(told.split()[1])
                else:
                    self.returncode = int(told.split()[1])
            if self.returncode is not None:
                self._channel.close()
            return True


class _Shared(NamedTuple):
    """Module, environment and imports that the processes of a server share."""

    module: str
    without: str
    environment: tuple[tuple[str, str], ...]
    """Variables that libraries read when they are loaded."""
    path: str
    """PYTHONPATH."""


def _pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _started(
    kind: _Shared, start: Callable[..., TiedProcess], idle_s: float | None
) -> tuple[socket.socket, TiedProcess]:
    """The connection to a new server, and its process. `idle_s` as in `warm_server.serve`."""
    ours, theirs = _pair()
    with theirs:
        process = start(
            ["-m", f"{__package__}.warm_server", str(theirs.fileno()), kind.module, json.dumps(idle_s)],
            deaf=True,
            without=kind.without,
            pass_fds=[theirs.fileno()],
            env={**os.environ, **dict(kind.environment)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    return ours, process


class _LentServer:
    """Server that another process started and lends."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def fork(self, request: bytes, errors: int, argument: int) -> ForkedProcess:
        """Asks for a process. Raises OSError if the server has ended."""
        ours, theirs = _pair()
        with theirs:
            socket.send_fds(self._connection, [request], [theirs.fileno(), errors, argument])
        return ForkedProcess(ours)

    def pids(self) -> list[int]:
        """Its process id if it works for this process alone."""
        return []

    def close(self) -> None:
        self._connection.close()


class _Server(_LentServer):
    """Server of one kind of process."""

    def __init__(self, kind: _Shared) -> None:
        connection, self.process = _started(kind, start_tied, IDLE_S)
        super().__init__(connection)
        # One that ends for lack of work would be a zombie of this process until the next request.
        threading.Thread(target=self.process.wait, name="reaper", daemon=True).start()
        self._used_s = time.monotonic()

    def fork(self, request: bytes, errors: int, argument: int) -> ForkedProcess:
        """Asks for a process. Raises OSError if the server has ended."""
        self._check()
        forked = super().fork(request, errors, argument)
        self._used_s = time.monotonic()
        return forked

    def pids(self) -> list[int]:
        """Its process id while it runs."""
        return [self.process.pid] if self.process.poll() is None else []

    def _check(self) -> None:
        """Raises OSError for a server that has ended, or that may do so at this moment."""
        if self.process.poll() is not None:
            raise ConnectionError("the server has ended")
        if time.monotonic() - self._used_s > _TRUSTED_S:
            self._connection.settimeout(_PING_S)
            self._connection.send(PING)
            if not self._connection.recv(64):
                raise ConnectionError("the server has ended")


class Lender:
    """Servers that the forks of this process share. They end with this process."""

    def __init__(self) -> None:
        self._ours, self._theirs = _pair()
        self._of: dict[_Shared, tuple[socket.socket, TiedProcess]] = {}

    def fileno(self) -> int:
        """Descriptor that is readable when a fork asks for a server."""
        return self._ours.fileno()

    def answer(self) -> None:
        """Answers a fork, after starting the first server of this kind."""
        message, descriptors, _, _ = socket.recv_fds(self._ours, MESSAGE_BYTES, 1)
        with socket.socket(fileno=descriptors[0]) as fork, suppress(OSError):
            module, without, environment, path = json.loads(message)
            kind = _Shared(module, without, tuple((name, value) for name, value in environment), path)
            found = self._of.get(kind)
            if found is None or found[1].poll() is not None:
                # Started by this thread, which lasts: forks of a process with other threads may hang.
                found = self._of[kind] = _started(kind, TiedProcess, None)
            socket.send_fds(fork, [b"."], [found[0].fileno()])

    def lend(self) -> None:
        """In a fork: makes `start_warm` ask the process that forked this one for servers."""
        self._ours.close()
        for connection, _ in self._of.values():
            connection.close()
        _servers().lender = self._theirs


class _Servers:
    """Servers of this process by kind."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[_Shared, _LentServer] = {}
        self.lender: socket.socket | None = None

    def fork(self, kind: _Shared, request: bytes, errors: int, argument: int) -> ForkedProcess:
        with self._lock:
            if (server := self._of.get(kind) or self._lent(kind)) is not None:
                try:
                    self._of[kind] = server
                    return server.fork(request, errors, argument)
                except OSError:
                    server.close()
            server = self._of[kind] = _Server(kind)
            return server.fork(request, errors, argument)

    def start(self, kind: _Shared) -> None:
        with self._lock:
            if kind not in self._of:
                self._of[kind] = self._lent(kind) or _Server(kind)

    def pids(self) -> list[int]:
        with self._lock:
            return [pid for server in self._of.values() for pid in server.pids()]

    def _lent(self, kind: _Shared) -> _LentServer | None:
        """A server of the lender, if there is one that answers."""
        if self.lender is None:
            return None
        ours, theirs = _pair()
        with ours, suppress(OSError):
            with theirs:
                socket.send_fds(self.lender, [json.dumps(kind).encode()], [theirs.fileno()])
            ours.settimeout(_PING_S)
            _, descriptors, _, _ = socket.recv_fds(ours, 64, 1)
            if descriptors:
                return _LentServer(socket.socket(fileno=descriptors[0]))
        self.lender = None
        return None


@cache
def _servers() -> _Servers:
    return _Servers()


if hasattr(os, "register_at_fork"):  # a fork starts servers of its own
    os.register_at_fork(after_in_child=_servers.cache_clear)


def server_pids() -> list[int]:
    """Process ids of the servers that work for this process alone."""
    return _servers().pids()


def _shared(module: str, without: str, environment: Mapping[str, str]) -> _Shared:
    return _Shared(module, without, (*sorted(environment.items()),), os.environ.get("PYTHONPATH", ""))


def import_ahead(module: str, *, without: str = "", environment: Mapping[str, str] | None = None) -> None:
    """Starts the imports of later calls of `start_warm` with these arguments, in another process."""
    if WORKS_HERE:
        with suppress(OSError):  # the later call tells what is wrong
            _servers().start(_shared(module, without, environment or {}))


def start_warm(
    module: str,
    argument: int,
    errors: IO[Any],
    *,
    without: str = "",
    environment: Mapping[str, str] | None = None,
    forked: bool = True,
) -> Child:
    """Starts `python -m module argument`. It ignores Ctrl-C, SIGTERM and SIGHUP, and ends with this process.

    Args:
        module: module to run.
        argument: descriptor that the process inherits, and whose number in it is the module's argument.
        errors: file of its standard error. It has no other standard files.
        without: package that the module cannot import, or "".
        environment: variables in addition to those of this process.
        forked: whether the process may share its imports with others.
    """
    further = dict(environment or {})
    everything = {**os.environ, **further}
    request = json.dumps({"environment": everything, "folder": str(Path.cwd())}).encode()
    if forked and WORKS_HERE and len(request) < MESSAGE_BYTES:
        with suppress(OSError):
            return _servers().fork(_shared(module, without, further), request, errors.fileno(), argument)
    return start_tied(
        ["-m", module, str(argument)],
        deaf=True,
        without=without,
        pass_fds=[argument],
        env=everything,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
    )
