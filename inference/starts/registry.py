"""Registry of start sources: value of `search.starts` to a function that makes those of a run."""

from __future__ import annotations

from typing import Any

from ..search.registry import Registry

STARTS = {
    "known": ".database:no_further_starts",
    "pretuned": "..fasor.pretuned_starts:pretuned_starts",
}
"""Module and function of each value; conf/search/default.yaml says what each does.

A function takes the settings of the search, the target, the tuning database and whether the run retunes, and
returns `StartSource` objects in addition to those of the database and of imported bundles.
"""

_REGISTRY = Registry("search.starts", __package__, STARTS)


def check_starts(name: str) -> None:
    """Raises OneShotConfigError for another value than those of `search.starts`."""
    _REGISTRY.check(name)


def further_starts(name: str) -> Any:
    """The function of a value of `search.starts`; raises OneShotConfigError."""
    return _REGISTRY.find(name)
