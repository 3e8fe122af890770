"""Commands of `foretune` without the seconds that a new process imports for."""

from __future__ import annotations

import logging
import os

from foretune.cli import main

from benchmarks.forked_commands import ForkedCommands

from .paths import TESTS


def forked_commands(module: str) -> ForkedCommands:
    """Commands forked from a process that has imported a module, and that measures peaks quickly."""
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return ForkedCommands([module, "support.quick_peaks"], {"PYTHONPATH": path})


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
