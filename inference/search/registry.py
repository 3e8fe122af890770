"""Registry of what the settings choose by name: each is imported when it is first used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from .settings_checks import OneShotConfigError


@dataclass(frozen=True)
class Registry:
    """Classes or functions by name.

    What the default search does without is named here by a string, so that nothing imports it before it is
    chosen.
    """

    option: str
    """Option that chooses among them, such as `search.planner`."""
    package: str
    """Package that the modules are relative to."""
    homes: Mapping[str, str]
    """Module and name, as in `.shares:LatencySharePlanner`, by the value of the option."""
    advice: str = "use"
    """Beginning of the advice in the error for another value."""

    def check(self, name: str) -> None:
        """Raises OneShotConfigError for a name that is not in the registry."""
        if name not in self.homes:
            raise OneShotConfigError(f"{self.option}={name}: {self.advice} one of {', '.join(self.homes)}")

    def find(self, name: str) -> Any:
        """The class or function of a name; raises OneShotConfigError."""
        self.check(name)
        module, _, attribute = self.homes[name].partition(":")
        return getattr(import_module(module, self.package), attribute)
