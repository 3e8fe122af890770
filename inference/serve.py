"""`foretune serve`: a process with the imports of the commands, which forks a process for each command.

Imports take five seconds of a core, a fork a hundredth. The server listens to a Unix socket in a folder that
only its user can enter. A command ends with the process that handed it over, and with the server.
"""

from __future__ import annotations

import gc
import io
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ..compiler.host.locks import LockedError, locked
from ..compiler.host.tied import tie_by_kernel
from ..compiler.host.warm import Lender
from ..configuration import ConfigError, check_least, from_hydra
from ..errors import UserError, exits_cleanly
from ..handover import ENDED, MESSAGE_BYTES, REFUSED, SERVED, STARTED, peer_user, process_key, socket_path
from ..signals import ENDING, exit_status
from ..terminal import CommandConsole, say
from ..wording import counted, visible

IMPORTS = (
    "foretune.inference.tune",
    "foretune.compiler.networks.importing.torch_import",
    "foretune.inference.dynamic.run",
)
"""Modules that commands share."""

OUTDATED = "has other code or other variables than this command; start it again"
"""Answer of a server that cannot run a command as a new process would."""


class ServeError(UserError, RuntimeError):
    """No server can listen here."""


@dataclass(frozen=True)
class ServeConfig:
    """Options of `foretune serve`."""

    idle_minutes: float = 60.0


def main(config: DictConfig) -> None:
    """Entry point of `foretune serve`: becomes a new process, as this one has settings of Hydra."""
    settings = from_hydra(config, ServeConfig)
    if sys.platform != "linux":
        raise ServeError(f"foretune serve needs Linux, and this is {sys.platform}; commands work without it")
    check_least(settings, {"idle_minutes": 0.0}, ConfigError)
    code = f"from {__name__} import run; run({settings.idle_minutes * 60.0!r})"
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-c", code])


@dataclass(frozen=True)
class Handed:
    """A command that was handed over, in the process that runs it."""

    words: Sequence[str]
    folder: str
    environment: Mapping[str, str]
    encodings: Sequence[str]
    ignored: Sequence[int]

    def run(self) -> None:
        """Gives this process the state of a new one that was started by the owner, and runs the command."""
        for number in ENDING:
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, signal.SIG_IGN if number in self.ignored else default)
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(self.folder)
        read, *written = self.encodings
        sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False), read)  # noqa: SIM115
        sys.stdout, sys.stderr = (
            io.TextIOWrapper(open(number, "wb", closefd=False), encoding, line_buffering=os.isatty(number))  # noqa: SIM115
            for number, encoding in zip((1, 2), written, strict=True)
        )
        sys.argv = ["foretune", *self.words]
        os.environ[SERVED] = "0"  # this process runs the command
        import_module("foretune.cli").main()


class Server:
    """Commands that run, each with the connection to the process that handed it over."""

    def __init__(
        self,
        listener: socket.socket,
        started_with: Mapping[str, str],
        idle_s: float,
        tell: Callable[[str], None],
    ) -> None:
        """`started_with` is the environment at the start of this process; `tell` prints a line."""
        self._listener, self._idle_s, self._tell = listener, idle_s, tell
        self._key = process_key(started_with)
        self._commands: dict[socket.socket, int] = {}
        self._ending = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        wake, self._woken = socket.socketpair()
        for end in (wake, self._woken):
            end.setblocking(False)
        self._wake = wake
        self._selector.register(self._woken, selectors.EVENT_READ, self._hear)
        self._lender = Lender()
        self._selector.register(self._lender, selectors.EVENT_READ, lambda lender: lender.answer())
        signal.set_wakeup_fd(wake.fileno())
        for number in (signal.SIGCHLD, *ENDING):  # `_hear` reads their numbers
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda number, frame: None)

    def serve(self) -> Handed | None:
        """Serves until a signal or the idle time; in the process of a command, returns the command.

        The first signal waits for the commands that run, and the second one ends them.
        """
        while self._commands or not self._ending:
            ready = self._selector.select(None if self._commands else self._idle_s)
            if not ready and not self._commands:
                self._tell(f"no command within {self._idle_s / 60:g} minutes")
                break
            for key, _ in ready:
                handed = key.data(key.fileobj)
                if handed is not None:
                    return handed
        return None

    def _end(self) -> None:
        if self._ending:
            for number in self._commands.values():
                os.kill(number, signal.SIGKILL)
        elif self._commands:
            self._tell(f"waiting for {counted(len(self._commands), 'command')}; Ctrl-C again ends what runs")
        self._ending = True

    def _accept(self, listener: socket.socket) -> Handed | None:
        connection, _ = listener.accept()
        request: dict[str, Any] = {}
        descriptors: list[int] = []
        with suppress(OSError, ValueError):
            connection.settimeout(5.0)
            message, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 3)
            request = json.loads(message)
        if peer_user(connection) != os.getuid() or len(descriptors) != 3 or not request:
            refusal = "did not understand the command"
        elif self._ending:
            refusal = "is ending"
        elif request.pop("key") != self._key:  # the command has just hashed the code
            refusal = OUTDATED
        else:
            return self._start(connection, descriptors, request)
        _tell(connection, REFUSED, refusal)
        for descriptor in descriptors:
            os.close(descriptor)
        connection.close()
        return None

    def _start(
        self, connection: socket.socket, descriptors: list[int], request: dict[str, Any]
    ) -> Handed | None:
        parent = os.getpid()
        pid = os.fork()
        if not pid:
            os.setsid()
            tie_by_kernel(parent)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            for end in (self._listener, self._wake, self._woken, connection, *self._commands):
                end.close()
            for standard, descriptor in enumerate(descriptors):
                os.dup2(descriptor, standard)
                os.close(descriptor)
            self._lender.lend()
            return Handed(**request)
        for descriptor in descriptors:
            os.close(descriptor)
        self._tell(f"process {pid}: foretune {visible(' '.join(request['words']))}")
        self._commands[connection] = pid
        _tell(connection, STARTED, pid)
        self._selector.register(connection, selectors.EVENT_READ, self._pass_on)
        return None

    def _pass_on(self, connection: socket.socket) -> None:
        """Sends a signal to a command, or ends one whose owner is gone."""
        if (pid := self._commands.get(connection)) is None:
            return  # it was reported in the same turn
        told = b""
        with suppress(OSError):
            told = connection.recv(64)
        if told and int(told) in ENDING:
            os.kill(pid, int(told))
        else:
            os.kill(pid, signal.SIGKILL)
            self._selector.unregister(connection)

    def _hear(self, woken: socket.socket) -> None:
        """Handles the signals that arrived."""
        for number in woken.recv(4096):
            if number in ENDING:
                self._end()
        self._report_ended()

    def _report_ended(self) -> None:
        for connection, pid in [*self._commands.items()]:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                code = os.waitstatus_to_exitcode(status)
                _tell(connection, ENDED, exit_status(-code) if code < 0 else code)
                del self._commands[connection]
                with suppress(KeyError):
                    self._selector.unregister(connection)
                connection.close()


def _tell(connection: socket.socket, what: str, rest: object) -> None:
    with suppress(OSError):  # the owner may be gone
        connection.send(f"{what} {rest}".encode())


@contextmanager
def listening() -> Iterator[socket.socket]:
    """The socket of this user's server. Raises ServeError if another one serves or no socket can be there."""
    path = socket_path()
    owner = os.getpid()
    with ExitStack() as stack:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_private(path.parent)
            stack.enter_context(locked(path.with_suffix(".lock")))
            path.unlink(missing_ok=True)
            listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            listener.bind(str(path))
        except LockedError as error:
            raise ServeError(f"{error} serves already; end it by Ctrl-C there") from error
        except OSError as error:
            raise ServeError(
                f"{path}: no socket can be there ({error}); set XDG_RUNTIME_DIR to a folder of yours with a "
                "short path"
            ) from error
        listener.listen()
        try:
            yield listener
        finally:
            if os.getpid() == owner:
                path.unlink(missing_ok=True)


def _check_private(folder: Path) -> None:
    found = folder.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ServeError(
            f"{folder}: others may enter this folder, and so run commands as you; chmod 700 {folder}"
        )


def run(idle_s: float) -> None:
    """Serves in this process, which was started for it; a forked one runs the command that it was handed."""
    if sys.path[:1] == [""]:
        del sys.path[0]  # commands run in other folders
    console, started_with = CommandConsole(), dict(os.environ)  # imports set variables
    handed: Handed | None = None
    with exits_cleanly(), listening() as listener:
        began = time.monotonic()
        gc.disable()
        for name in IMPORTS:
            import_module(name)
        gc.collect()
        gc.freeze()  # a collection in a fork would copy the pages of all objects
        gc.enable()
        say(
            console,
            f"ready after {time.monotonic() - began:.1f} s; foretune in other terminals starts at once",
        )
        handed = Server(listener, started_with, idle_s, lambda text: say(console, text)).serve()
    if handed is not None:
        handed.run()
