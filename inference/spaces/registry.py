"""Registry of design spaces: value of `search.space` to class."""

from __future__ import annotations

from typing import Any

from ..search.registry import Registry

SPACES = {"stock": ".stock:StockSpace", "sub_space": "..fasor.sub_space:SubSpace"}
"""Module and class of each `DesignSpace`; conf/search/default.yaml documents the values."""

_REGISTRY = Registry("search.space", __package__, SPACES)


def space_class(name: str) -> Any:
    """The class of a design space; raises OneShotConfigError."""
    return _REGISTRY.find(name)
