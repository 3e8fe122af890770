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
