"""Interface of searchers, which propose candidates for one task at a time."""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Protocol

from .messages import RoundReply, RoundRequest


class Searcher(Protocol):
    """Search process or stand-in that answers one request at a time."""

    @property
    def connection(self) -> Connection | None:
        """Connection that becomes readable with the reply; None where `reply` answers at once."""

    def ask(self, request: RoundRequest) -> None:
        """Hands in a request."""

    def reply(self) -> RoundReply:
        """The reply; raises WorkerLostError where the searcher died, after which it is started again."""

    def close(self) -> None:
        """Ends it."""
