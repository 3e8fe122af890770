"""Turns of the runs that tune into one database, one after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ...compiler.host.locks import locked

TURN_FILE = ".turn"
"""File that a run locks while it tunes into the folder."""


@contextmanager
def turn_in(
    folder: Path, say: Callable[[str], None], otherwise: str = "require_database=true"
) -> Iterator[float]:
    """Lets no other process tune into a folder during the block; open its database in the block.

    If one does, calls `say` and waits for its end, so that its measurements are not repeated and not
    disturbed. `otherwise` is a setting with which the run would not wait. Yields the seconds of the wait.
    """
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()

    def wait(holder: str) -> None:
        say(
            f"database={folder.parent}: another run ({holder}) is tuning into {folder.name}; this one waits "
            "for its end and continues from its results. It would not wait with another database=, or with "
            f"{otherwise}"
        )

    with locked(folder / TURN_FILE, wait):
        yield time.monotonic() - began
