"""Registry of classes and functions that the settings select by name. Each is imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from .settings_checks import OneShotConfigError


@dataclass(frozen=True)
class Registry:
    """Classes or functions by name.

    The homes are strings, so that a module is not imported before its entry is selected. The default search
    thus skips the modules that it does not need.
    """

    option: str
    """Option that selects among the entries, such as `search.planner`."""
    package: str
    """Package that the modules are relative to."""
    homes: Mapping[str, str]
    """Module and attribute, such as `.shares:LatencySharePlanner`, by the value of the option."""
    advice: str = "use"
    """Start of the advice in the error for an unknown value."""

    def check(self, name: str) -> None:
        """Raises OneShotConfigError for a name that is not in the registry."""
        if name not in self.homes:
            raise OneShotConfigError(f"{self.option}={name}: {self.advice} one of {', '.join(self.homes)}")

    def find(self, name: str) -> Any:
        """The class or function of a name; raises OneShotConfigError."""
        self.check(name)
        module, _, attribute = self.homes[name].partition(":")
        return getattr(import_module(module, self.package), attribute)


SPACES = Registry(
    "search.space",
    __package__,
    {"stock": "..spaces.stock:StockSpace", "sub_space": "..fasor.sub_space:SubSpace"},
)
"""Class of each `DesignSpace`; conf/search/default.yaml documents the values of all options."""

STARTS = Registry(
    "search.starts",
    __package__,
    {
        "known": "..starts.database:no_further_starts",
        "pretuned": "..fasor.pretuned_starts:pretuned_starts",
    },
)
"""Functions that create the start sources of a run in addition to the database and the imported bundles.

Their arguments are the settings of the search, the target, the tuning database and whether the run retunes.
"""

REUSES = Registry(
    "search.reuse",
    __package__,
    {
        "off": "..reuse.base:NoReuse",
        "auto": "..reuse.auto:AutoReuse",
        "paper": "..eto.reuse_modes:PaperReuse",
        "top_k": "..eto.reuse_modes:TopKReuse",
        "selective": "..eto.reuse_modes:SelectiveReuse",
    },
)
"""Class of each `ReuseMode`."""
