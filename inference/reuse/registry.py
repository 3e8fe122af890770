"""Registry of reuse modes: value of `search.reuse` to class."""

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
"""Module and class of each `ReuseMode`; conf/search/default.yaml documents the values."""

_REGISTRY = Registry("search.reuse", __package__, REUSES)


def check_reuse(name: str) -> None:
    """Raises OneShotConfigError for a name that is not a value of `search.reuse`."""
    _REGISTRY.check(name)


def reuse_mode(name: str) -> Any:
    """The class for a value of `search.reuse`; raises OneShotConfigError for another name."""
    return _REGISTRY.find(name)
