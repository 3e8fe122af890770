"""From a composed Hydra configuration to a frozen dataclass, which is its schema."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from .errors import UserError

Config = TypeVar("Config")


class ConfigError(UserError, ValueError):
    """A setting is missing, unknown, of another type, or out of range."""


def from_hydra(config: DictConfig, schema: type[Config]) -> Config:
    """Validates a composed configuration against the fields and types of `schema`.

    Raises:
      ConfigError: says which field is missing, unknown or of another type.
    """
    merged = OmegaConf.structured(schema)
    _thaw(merged)
    try:
        merged.merge_with(config)
        return cast(Config, OmegaConf.to_object(merged))
    except MissingMandatoryValue as error:
        name = str(error).splitlines()[0].rpartition(" ")[2]
        raise ConfigError(f"{name} is missing: give it, as in {name}=VALUE") from error
    except OmegaConfBaseException as error:
        reason = (error.msg or str(error)).splitlines()[0]
        raise ConfigError(f"{error.full_key or 'configuration'}: {reason}") from error


def _thaw(node: Any) -> None:
    """Lifts the read-only mark that OmegaConf sets on the nodes of frozen dataclasses."""
    OmegaConf.set_readonly(node, None)
    for key in node:
        if not OmegaConf.is_missing(node, key) and isinstance(node[key], DictConfig):
            _thaw(node[key])
