"""Foretune: pretrained learned cost models for tensor-program tuning with a stock Apache TVM.

`foretune.load` runs a network that `foretune tune export=FILE` wrote.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Imports on first use: TVM takes seconds, and not every command needs it."""
    if name != "load":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(".inference.deploy.load", __name__).load
