"""Validation of a composed Hydra configuration against the frozen dataclass that is its schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, MissingMandatoryValue, OmegaConfBaseException

from .errors import UserError
from .suggestions import option_names, similar_option

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
        settings = cast(Config, OmegaConf.to_object(merged))
    except MissingMandatoryValue as error:
        name = str(error).splitlines()[0].rpartition(" ")[2]
        raise ConfigError(f"{name} is missing: give it, as in {name}=VALUE") from error
    except ConfigKeyError as error:
        known = option_names(OmegaConf.to_container(OmegaConf.structured(schema)))
        raise unknown_option(str(error.full_key), known) from error
    except OmegaConfBaseException as error:
        reason = (error.msg or str(error)).splitlines()[0]
        given = OmegaConf.to_container(config, resolve=False)
        misfit = next(_misfits(schema, given), f"{error.full_key or 'configuration'}: {reason}")
        raise ConfigError(misfit) from error
    if _ONLY_VALIDATED.get():
        raise Validated(settings)
    return settings


_ONLY_VALIDATED = ContextVar("only_validated", default=False)


class Validated(Exception):
    """Ends a job whose settings are valid, inside `only_validated`; `settings` are the settings."""

    def __init__(self, settings: Any) -> None:
        super().__init__()
        self.settings = settings


@contextmanager
def only_validated() -> Iterator[None]:
    """Lets a job raise `Validated` as soon as it has validated its settings."""
    token = _ONLY_VALIDATED.set(True)
    try:
        yield
    finally:
        _ONLY_VALIDATED.reset(token)


_KINDS: Mapping[Any, str] = {
    **{int: "a whole number", float: "a number", bool: "true or false"},
    **{str: "one text", Path: "one path"},
}
_TRUTHS = frozenset(["true", "false", "yes", "no", "on", "off", "y", "n", "1", "0"])


def _misfits(hint: Any, value: Any, name: str = "") -> Iterator[str]:
    """Messages for the values of settings that do not fit the annotations of their schema."""
    if get_origin(hint) is Annotated:
        hint = hint.__origin__
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if NoneType in arguments and len(arguments) == 2:
        if value is not None:
            yield from _misfits(next(part for part in arguments if part is not NoneType), value, name)
        return
    is_reference = isinstance(value, str) and ("${" in value or value == "???")
    if kind in (Any, UnionType, Union) or is_reference:
        return
    named = f"{name}={_as_typed(value)}: must be"
    if kind in (list, Sequence):
        if not isinstance(value, list):
            yield f"{named} a list" + (
                "" if isinstance(value, dict) else f", as in {name}=[{_as_typed(value)}]"
            )
            return
        for number, item in enumerate(value):
            yield from _misfits(arguments[0], item, f"{name}[{number}]")
    elif kind in (dict, Mapping) or is_dataclass(kind):
        if not isinstance(value, dict):
            yield f"{named} a group of options, as in {name}.OPTION=VALUE"
            return
        hints = get_type_hints(kind, include_extras=True) if is_dataclass(kind) else {}
        for key, item in value.items():
            inside = hints.get(key, Any) if hints else arguments[1]
            yield from _misfits(inside, item, f"{name}.{key}" if name else str(key))
    elif kind in _KINDS and not _fits(kind, value):
        yield f"{named} {_KINDS[kind]}"


def _fits(kind: type, value: Any) -> bool:
    """Whether OmegaConf converts a value to int, float, bool, str or Path."""
    if value is None or isinstance(value, list | dict):
        return False
    if kind is bool:
        return str(value).lower() in _TRUTHS
    if kind in (str, Path):
        return True
    try:
        kind(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, bool) and not (kind is int and isinstance(value, float))


def _as_typed(value: Any) -> str:
    """A value in the words of a command line."""
    if isinstance(value, list):
        return f"[{','.join(map(_as_typed, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{key}:{_as_typed(item)}' for key, item in value.items())}}}"
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


def unknown_option(name: str, known: Iterable[str]) -> ConfigError:
    """Error for an option whose dotted `name` is not among the `known` ones."""
    similar = similar_option(name, known)
    hint = f"did you mean {similar}? " if similar else ""
    return ConfigError(f"unknown option {name}: {hint}--help-all lists them all")


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
