"""Processes without torch. TVM imports it if it can, which takes two thirds of the time of TVM's import."""

from __future__ import annotations

import os

from .paths import TESTS


def without_torch() -> dict[str, str]:
    """Environment variables of Python processes that find no torch, like the processes that they start."""
    paths = [str(TESTS / "support" / "no_torch"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths)}
