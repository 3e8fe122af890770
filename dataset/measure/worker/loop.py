"""Loop of a worker process: answers JSON requests over a connection that it inherits. Works without TVM."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Protocol

_MESSAGE_CHARS = 2000


class Operations(Protocol):
    """Object whose methods are the operations of a worker process: JSON values in, a mapping or None out."""

    def prepare(self) -> Any:
        """Prepare for the first operation."""

    def usable(self) -> bool:
        """Whether the process can continue after a failed operation."""


class RepliedError(Exception):
    """Failure of an operation with a specific reply."""

    @property
    def reply(self) -> dict[str, Any]:
        raise NotImplementedError


def serve(connection: Connection, make: Callable[..., Operations]) -> None:
    """Answer requests until the other end closes the connection."""
    hello = json.loads(connection.recv_bytes())
    operations = make(**hello)
    request: dict[str, Any] = {"op": "prepare"}
    while True:
        connection.send_bytes(json.dumps(_answer(operations, **request)).encode())
        try:
            request = json.loads(connection.recv_bytes())
        except EOFError:
            return


def _answer(operations: Operations, op: str, **request: Any) -> dict[str, Any]:
    try:
        return getattr(operations, op)(**request) or {}
    except RepliedError as failure:
        return failure.reply
    except Exception as error:  # an operation may fail in any way; the owner gets the message
        text = str(error).strip() or type(error).__name__
        return {"error": text[-_MESSAGE_CHARS:], "usable": operations.usable()}


def main(make: Callable[..., Operations]) -> None:
    """Entry point of a worker process; `make` takes the fields of the first message."""
    serve(Connection(int(sys.argv[1])), make)
