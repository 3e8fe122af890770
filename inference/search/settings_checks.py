"""Settings of a config group by name, and the error for a setting that is out of range."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from omegaconf import OmegaConf

from ...configuration import ConfigError, from_hydra
from ...dataset.sampling.programs.strategy_config import StrategyConfigError
from ...errors import UserError


class OneShotConfigError(UserError, ValueError):
    """A setting of the search is unknown or out of range."""


def named_settings(group: str, given: Any, schema_of: Callable[[str], type]) -> Any:
    """Settings of a config group `search/<group>`, from a name or from a mapping with the key `name`.

    `schema_of` returns the dataclass of a name. Raises OneShotConfigError.
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
    except StrategyConfigError as error:
        raise OneShotConfigError(f"search.{group}.{error.setting}") from error
    except ConfigError as error:
        raise OneShotConfigError(f"search.{group}.{error}") from error
