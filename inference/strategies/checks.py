"""Range checks of a search's settings."""

from __future__ import annotations

from typing import Any

from ...errors import UserError


class OneShotConfigError(UserError, ValueError):
    """A setting of the search is unknown or out of range."""


def at_least(config: Any, **least: float) -> None:
    """Raises OneShotConfigError where a field is below its least value; None passes."""
    for name, lowest in least.items():
        value = getattr(config, name)
        if value is not None and value < lowest:
            raise OneShotConfigError(f"search.strategy.{name}={value}: must be at least {lowest}")


def shares(config: Any, *names: str) -> None:
    """Raises OneShotConfigError where a field is no share in [0, 1]."""
    for name in names:
        if not 0 <= getattr(config, name) <= 1:
            raise OneShotConfigError(f"search.strategy.{name}={getattr(config, name)}: must be in [0, 1]")
