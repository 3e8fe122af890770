"""Hands a command over to `foretune serve`, which has the imports, and lends it this terminal.

The server forks a process for the command. This process waits for its end and passes signals on.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from . import __version__
from .cache_folder import cache_folder
from .signals import ENDING, exit_status

SERVED = "FORETUNE_SERVE"
"""Environment variable; 0 keeps a command from being handed over."""

MESSAGE_BYTES = 1 << 17
"""Maximum size of a message, which has the environment of the command."""

REFUSED, STARTED, ENDED = "refused", "started", "ended"
"""What a server answers to a command: why it does not run it, that it runs, and its exit status."""

LOST = exit_status(signal.SIGKILL)
"""Exit status of a command whose server was killed."""

_READ_AT_START = (
    *("PYTHON", "LD_", "OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "DNNL_", "ONEDNN_", "ATEN_"),
    *("TORCH", "PYTORCH", "TVM_", "CUDA_", "MALLOC_", "FORETUNE_CPU"),
)
"""Beginnings of the variables that Python and libraries read while they are loaded."""


def socket_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Socket of the user's server: in `$XDG_RUNTIME_DIR/foretune`, or else in the cache."""
    given = Path(environment.get("XDG_RUNTIME_DIR", ""))
    folder = given / "foretune" if given.is_absolute() else cache_folder(environment)
    return folder / "serve"


def process_key(environment: Mapping[str, str] = os.environ) -> str:
    """Digest of all that a process keeps from its start: code, Python, and variables that are read then.

    Code is judged by the names and times of foretune's files and of the folder of installed packages.
    """
    digest = hashlib.sha256(json.dumps([__version__, sys.executable, sys.version]).encode())
    for path, time_ns in _sources():
        digest.update(f"{path} {time_ns}\n".encode())
    for name in sorted(environment):
        if name.startswith(_READ_AT_START):
            digest.update(f"{name}={environment[name]}\n".encode())
    return digest.hexdigest()


def _sources() -> Iterator[tuple[str, int]]:
    root = Path(__file__).parent
    for folder in (root, *(path for path in sorted(root.iterdir()) if (path / "__init__.py").is_file())):
        nested = () if folder == root else sorted(folder.rglob("*.py"))
        for path in (*nested, *(sorted(root.glob("*.py")) if folder == root else ())):
            yield str(path), path.stat().st_mtime_ns
    for name in sys.path:
        if name.endswith("site-packages") and (packages := Path(name)).is_dir():
            yield name, packages.stat().st_mtime_ns


def peer_user(connection: socket.socket) -> int:
    """User id of the process at the other end."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    user: int = struct.unpack("3i", credentials)[1]
    return user


def handed_over(words: Sequence[str]) -> int | None:
    """Exit status of a command that the server ran, or None if this process has to run it.

    It has to if no server of this user listens, or if the server differs in `process_key`, which is said.
    """
    if os.environ.get(SERVED) == "0" or sys.platform != "linux":
        return None
    path = socket_path()
    if not path.exists():
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        try:
            connection.connect(str(path))
            if peer_user(connection) != os.getuid():
                return None
            socket.send_fds(connection, [_request(words)], [0, 1, 2])
        except OSError:  # no server any more, a path or an environment that is too long, a closed stream
            return None
        return _wait(connection)


def _request(words: Sequence[str]) -> bytes:
    request: dict[str, Any] = {
        "key": process_key(),
        "words": list(words),
        "folder": str(Path.cwd()),
        "environment": dict(os.environ),
        "encodings": [stream.encoding for stream in (sys.stdin, sys.stdout, sys.stderr)],
        "ignored": [number for number in ENDING if signal.getsignal(number) is signal.SIG_IGN],
    }
    return json.dumps(request).encode()


def _wait(connection: socket.socket) -> int | None:
    """Passes signals on to the command until it ends."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        with suppress(OSError):
            connection.send(b"%d" % number)

    before: dict[signal.Signals, Any] = {number: signal.getsignal(number) for number in ENDING}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, pass_on)
    try:
        while True:
            try:
                what, _, rest = connection.recv(4096).decode().partition(" ")
            except OSError:
                what, rest = "", ""
            if what == REFUSED:
                print(f"foretune serve {rest}; this command starts without it", file=sys.stderr)
                return None
            if what == ENDED:
                before = dict.fromkeys(ENDING, signal.SIG_IGN)  # the status is decided
                return int(rest)
            if what != STARTED:
                print(
                    "foretune serve has ended, and this command with it; the same command continues from the "
                    "stored results",
                    file=sys.stderr,
                )
                return LOST
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
