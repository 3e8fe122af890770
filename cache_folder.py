"""Folder of foretune in the user's cache."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_CACHE_HOME/foretune`, by default `~/.cache/foretune`.

    A relative path in the variable is ignored, as XDG's specification asks.
    """
    given = Path(environment.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".cache") / "foretune"
