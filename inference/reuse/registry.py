"""Registry of the ways in which tasks reuse each other: value of `search.reuse` to class."""

from __future__ import annotations

from typing import Any

from ..search.registry import Registry

REUSES = {
    "off": ".base:NoReuse",
    "auto": ".auto:AutoReuse",
    "paper": "..eto.reuse_modes:PaperReuse",
    "top_k": "..eto.reuse_modes:TopKReuse",
    "selective": "..eto.reuse_modes:SelectiveReuse",
}
"""Module and class of each `ReuseMode`; conf/search/default.yaml says what each does."""

_REGISTRY = Registry("search.reuse", __package__, REUSES)


def check_reuse(name: str) -> None:
    """Raises OneShotConfigError for another value than those of `search.reuse`."""
    _REGISTRY.check(name)


def reuse_mode(name: str) -> Any:
    """The class of a value of `search.reuse`; raises OneShotConfigError."""
    return _REGISTRY.find(name)
