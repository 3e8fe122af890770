"""The measuring process: imports TVM once, then does what its role can do, whenever it is asked.

It is started by `WorkerProcess`, as `python -m foretune.dataset.measure.worker FD` would but without torch,
and talks JSON over the connection that it inherits as FD. A candidate that crashes or hangs takes this
process with it and nothing else.
"""

from __future__ import annotations

import ctypes
import json
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

from tvm.target import Target

from .job import MeasureConfig
from .roles import DeviceLostError, Role, StaleSessionError

_MESSAGE_CHARS = 2000
_ROLES = {
    "host": ("roles", "Host"),
    "compiler": ("roles", "Compiler"),
    "device": ("roles", "Device"),
    "rpc_device": ("rpc", "RpcDevice"),
    "dry_compiler": ("dry_run", "DryCompiler"),
    "dry_device": ("dry_run", "DryDevice"),
}


def serve(connection: Connection, make_role: Callable[..., Role]) -> None:
    """Answers requests until the other end closes."""
    hello = json.loads(connection.recv_bytes())
    role = make_role(**hello)
    request: dict[str, Any] = {"op": "prepare"}
    while True:
        connection.send_bytes(json.dumps(_answer(role, **request)).encode())
        try:
            request = json.loads(connection.recv_bytes())
        except EOFError:
            return


def _make_role(role: str, target: str, config: dict[str, Any], settings: dict[str, Any]) -> Role:
    module, name = _ROLES[role]
    made: Role = getattr(import_module(f".{module}", __package__), name)(
        Target(json.loads(target)), MeasureConfig(**config), **settings
    )
    return made


def _answer(role: Role, op: str, **request: Any) -> dict[str, Any]:
    try:
        return getattr(role, op)(**request) or {}
    except StaleSessionError:
        return {"stale": True}
    except DeviceLostError as lost:
        return {"lost": str(lost)}
    except Exception as error:  # a candidate may fail in any way; its record says how
        text = str(error).strip() or type(error).__name__
        return {"error": text[-_MESSAGE_CHARS:], "usable": role.usable()}


def _die_with_parent() -> None:
    """Asks Linux to kill this process when its parent goes, so that a kill -9 leaves nothing behind."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def main(make_role: Callable[..., Role] = _make_role) -> None:
    """Entry of a worker process; `make_role` takes the fields of the hello that `WorkerProcess` sends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    _die_with_parent()
    serve(Connection(int(sys.argv[1])), make_role)


if __name__ == "__main__":
    main()
