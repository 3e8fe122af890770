"""Dataclasses from untrusted JSON: each field must exist, have its type and be printable."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

_Read = TypeVar("_Read")

_MOST = 2**63
_MOST_LEVELS = 8
"""Maximum nesting depth of lists and objects inside a field."""


def read_fields(of: type[_Read], values: Any, where: str = "") -> _Read:
    """Instance of a dataclass from JSON values, including nested dataclasses and lists of dataclasses.

    Numbers must be finite and not negative. Texts may contain only printable characters, so that they cannot
    control a terminal. Raises ValueError with the name of the field, prefixed by `where`.
    """
    if not isinstance(values, dict):
        raise ValueError(f"{where.rstrip('.') or 'it'} is no JSON object: {values!r:.40}")
    expected = {field.name for field in fields(of)}  # type: ignore[arg-type]
    for name in sorted(expected ^ values.keys()):
        raise ValueError(f"{where}{name!r:.80} is {'missing' if name in expected else 'unknown'}")
    hints = get_type_hints(of)
    return of(**{name: _read(hints[name], value, f"{where}{name}") for name, value in values.items()})


def _read(hint: Any, value: Any, name: str) -> Any:
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if NoneType in arguments:
        return None if value is None else _read(arguments[0], value, name)
    if is_dataclass(kind):
        return read_fields(kind, value, f"{name}.")  # type: ignore[arg-type]
    if kind is list and isinstance(value, list):
        return [_read(arguments[0], item, f"{name}[{number}]") for number, item in enumerate(value)]
    if kind in (int, float):
        fits = isinstance(value, kind | int) and not isinstance(value, bool)
        if not fits or not 0 <= value < _MOST:
            raise ValueError(f"{name}={value!r:.40} must be a number of at least 0, and finite")
    elif not isinstance(value, kind):
        raise ValueError(f"{name}={value!r:.40} must be a {kind.__name__}")
    _check_texts(value, name, _MOST_LEVELS)
    return value


def _check_texts(value: Any, name: str, most: int) -> None:
    if most == 0:
        raise ValueError(f"{name} is nested over {_MOST_LEVELS} levels deep")
    if isinstance(value, str) and not value.isprintable():
        raise ValueError(f"{name} has characters that do not print: {value!r:.40}")
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list):
        for item in value:
            _check_texts(item, name, most - 1)
