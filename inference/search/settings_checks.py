"""Range checks of a search's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from omegaconf import OmegaConf

from ...configuration import ConfigError, from_hydra
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


def named_settings(group: str, given: Any, schema_of: Callable[[str], type]) -> Any:
    """Settings of a config group `search/<group>`, from a name or from a mapping with the key `name`.

    `schema_of` gives the dataclass of a name. Raises OneShotConfigError.
    """
    values = {"name": given} if isinstance(given, str) else dict(given) if isinstance(given, Mapping) else {}
    schema = schema_of(str(values.get("name", given)))
    if unknown := sorted(set(values) - {field.name for field in fields(schema)}):
        raise OneShotConfigError(
            f"search.{group}.{unknown[0]}: the {group} {values['name']} has no such setting; it has "
            f"{', '.join(field.name for field in fields(schema) if field.name != 'name') or 'none'}"
        )
    try:
        return from_hydra(OmegaConf.create(values), schema)
    except ConfigError as error:
        raise OneShotConfigError(f"search.{group}.{error}") from error
