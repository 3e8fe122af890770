"""Commands of `foretune` in the process of the tests, without the seconds that a new process imports for."""

from __future__ import annotations

import logging
import os

from foretune.cli import main


def status_of(*words: str | os.PathLike[str]) -> int | str | None:
    """Exit status of `foretune` with these words. What Hydra does to logging is taken back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        main([str(word) for word in words])
    except SystemExit as end:
        return end.code
    finally:
        root.handlers[:], root.level = handlers, level
    return 0
