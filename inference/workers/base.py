"""Interface of searchers. A searcher proposes candidates for one task at a time."""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Protocol

from .messages import RoundReply, RoundRequest


class Searcher(Protocol):
    """Search process, or a substitute in this process, that answers one request at a time."""

    @property
    def connection(self) -> Connection | None:
        """Connection that becomes readable when the reply arrives; None if `reply` answers at once."""

    def ask(self, request: RoundRequest) -> None:
        """Submits a request."""

    def reply(self) -> RoundReply:
        """Returns the reply. Raises WorkerLostError if the searcher died; a new process then replaces it."""

    def close(self) -> None:
        """Ends the searcher."""
