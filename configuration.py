"""Validation of a composed Hydra configuration against the frozen dataclass that is its schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, MissingMandatoryValue, OmegaConfBaseException

from .errors import UserError

Config = TypeVar("Config")


class ConfigError(UserError, ValueError):
    """A setting is missing, unknown, of another type, or out of range."""


def from_hydra(config: DictConfig, schema: type[Config]) -> Config:
    """Validates a composed configuration against the fields and types of `schema`.

    Raises:
      ConfigError: names the field that is missing, unknown or of another type.
    """
    merged = OmegaConf.structured(schema)
    _make_writable(merged, config)
    try:
        merged.merge_with(config)
        return cast(Config, OmegaConf.to_object(merged))
    except MissingMandatoryValue as error:
        name = str(error).splitlines()[0].rpartition(" ")[2]
        raise ConfigError(f"{name} is missing: give it, as in {name}=VALUE") from error
    except ConfigKeyError as error:
        raise unknown_option(str(error.full_key), error.parent_node or ()) from error
    except OmegaConfBaseException as error:
        reason = (error.msg or str(error)).splitlines()[0]
        raise ConfigError(f"{error.full_key or 'configuration'}: {reason}") from error


def unknown_option(name: str, siblings: Iterable[Any]) -> ConfigError:
    """Error for an option whose dotted `name` is not among `siblings`, the options of its group."""
    parent, dot, own = name.rpartition(".")
    similar = get_close_matches(own, map(str, siblings), n=1)
    hint = f"did you mean {parent}{dot}{similar[0]}? " if similar else ""
    return ConfigError(f"unknown option {name}: {hint}--help lists them all")


def as_json(settings: Any) -> Any:
    """Settings as JSON values: dataclasses as objects and paths as text."""
    if is_dataclass(settings) and not isinstance(settings, type):
        return as_json(asdict(settings))
    if isinstance(settings, dict):
        return {key: as_json(value) for key, value in settings.items()}
    if isinstance(settings, list):
        return [as_json(value) for value in settings]
    return str(settings) if isinstance(settings, Path) else settings


SEEDS = 2**32
"""Number of seeds, 0 to SEEDS - 1, that NumPy, torch and Lightning all take."""


def check_seed(name: str, seed: int) -> None:
    """Raises ConfigError for a seed that is not among `SEEDS`."""
    if not 0 <= seed < SEEDS:
        raise ConfigError(f"{name}={seed}: choose a seed from 0 to {SEEDS - 1}")


def check_least(
    settings: object, least: Mapping[str, float], error: type[UserError], prefix: str = ""
) -> None:
    """Raises `error` for the first setting below its bound in `least`; None is below no bound.

    `prefix` precedes the names in the message, as in "search.".
    """
    for name, bound in least.items():
        if (value := getattr(settings, name)) is not None and value < bound:
            raise error(f"{prefix}{name}={value}: must be at least {bound}")


def _make_writable(node: Any, given: Any) -> None:
    """Removes the read-only flag that OmegaConf sets on the nodes of frozen dataclasses.

    A field of type Any that `given` sets loses its default: it may take another dataclass.
    """
    OmegaConf.set_readonly(node, None)
    for key in node:
        if OmegaConf.is_missing(node, key) or not isinstance(node[key], DictConfig):
            continue
        inside = given.get(key) if isinstance(given, DictConfig) else None
        if inside is not None and node._get_node(key)._metadata.ref_type is Any:
            node[key] = None
        else:
            _make_writable(node[key], inside)
