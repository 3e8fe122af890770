"""Registry of start sources: value of `search.starts` to a function that creates the sources of a run."""

from __future__ import annotations

from typing import Any

from ..search.registry import Registry

STARTS = {
    "known": ".database:no_further_starts",
    "pretuned": "..fasor.pretuned_starts:pretuned_starts",
}
"""Module and function of each value; conf/search/default.yaml documents the values.

The arguments of a function are the settings of the search, the target, the tuning database and whether the
run retunes. It returns `StartSource` objects in addition to the database and the imported bundles.
"""

_REGISTRY = Registry("search.starts", __package__, STARTS)


def check_starts(name: str) -> None:
    """Raises OneShotConfigError for a name that is not a value of `search.starts`."""
    _REGISTRY.check(name)


def further_starts(name: str) -> Any:
    """The function for a value of `search.starts`; raises OneShotConfigError for another name."""
    return _REGISTRY.find(name)
