"""JSON objects of files that others may have written, read into dataclasses field by field.

The annotations of a dataclass are the schema: `Annotated[int, Span(1, 64)]` is an integer from 1 to 64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

_Read = TypeVar("_Read")

_MOST = 2**63
_MOST_LEVELS = 8
"""Maximum nesting depth of lists and objects inside a field."""


@dataclass(frozen=True)
class Span:
    """Range of a number, with both ends; the default is that of numbers without an annotation."""

    least: float = 0
    most: float = math.nextafter(_MOST, 0)

    def __str__(self) -> str:
        if self == Span():
            return "of at least 0, and finite"
        return f"from {self.least:g} to {self.most:g}"


Signed = Annotated[float, Span(-1e38, 1e38)]
"""A finite number of either sign."""


def read_fields(of: type[_Read], values: Any, where: str = "", *, defaults: bool = False) -> _Read:
    """Instance of a dataclass from JSON values, including nested dataclasses and lists of dataclasses.

    Numbers must be within their `Span`. Texts may contain only printable characters, so that they cannot
    control a terminal. Raises ValueError with the name of the field, prefixed by `where`.

    Args:
        of: dataclass that is read.
        values: its JSON object.
        where: name of the object with a dot, or "" for the whole file.
        defaults: whether a missing field takes its default, as in files of earlier versions.
    """
    if not isinstance(values, dict):
        raise ValueError(f"{where.rstrip('.') or 'it'} is no JSON object: {values!r:.40}")
    known = fields(of)  # type: ignore[arg-type]
    expected = {field.name for field in known}
    optional = {f.name for f in known if f.default is not MISSING or f.default_factory is not MISSING}
    for name in sorted(expected ^ values.keys()):
        if name in expected and defaults and name in optional:
            continue
        raise ValueError(f"{where}{name!r:.80} is {'missing' if name in expected else 'unknown'}")
    hints = get_type_hints(of, include_extras=True)
    read = {
        name: read_value(hints[name], value, f"{where}{name}", defaults) for name, value in values.items()
    }
    return of(**read)


def check_arguments(of: Callable[..., Any], arguments: Mapping[str, Any], where: str) -> None:
    """Raises ValueError for an argument whose value does not fit the annotation in the signature of `of`.

    `where` precedes the names in the message, as in "model.arguments.".
    """
    hints = get_type_hints(of, include_extras=True)
    for name, value in arguments.items():
        read_value(hints[name], value, f"{where}{name}")


def read_value(hint: Any, value: Any, name: str, defaults: bool = False) -> Any:
    """The JSON value of the field `name` as the annotation `hint` asks for; raises ValueError."""
    limits = Span()
    if get_origin(hint) is Annotated:
        limits = next((extra for extra in hint.__metadata__ if isinstance(extra, Span)), limits)
        hint = hint.__origin__
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if NoneType in arguments:
        return None if value is None else read_value(arguments[0], value, name, defaults)
    if is_dataclass(kind):
        return read_fields(kind, value, f"{name}.", defaults=defaults)  # type: ignore[arg-type]
    if kind in (list, Sequence) and isinstance(value, list | tuple):
        return [read_value(arguments[0], item, f"{name}[{i}]", defaults) for i, item in enumerate(value)]
    if kind is dict and isinstance(value, dict):
        _check_content(value, name, _MOST_LEVELS)
        return {key: read_value(arguments[1], item, f"{name}.{key}", defaults) for key, item in value.items()}
    if kind in (int, float):
        fits = isinstance(value, kind | int) and not isinstance(value, bool)
        if not fits or not limits.least <= value <= limits.most:
            whole = "a whole number" if kind is int else "a number"
            raise ValueError(f"{name}={value!r:.40} must be {whole} {limits}")
    elif kind is not Any and not isinstance(value, kind):
        raise ValueError(f"{name}={value!r:.40} must be a {kind.__name__}")
    _check_content(value, name, _MOST_LEVELS)
    return value


def _check_content(value: Any, name: str, most: int) -> None:
    """Checks texts and numbers at any depth of a value without a schema."""
    if most == 0:
        raise ValueError(f"{name} is nested over {_MOST_LEVELS} levels deep")
    if isinstance(value, str) and not value.isprintable():
        raise ValueError(f"{name} has characters that do not print: {value!r:.40}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} has a number that is not finite: {value!r:.40}")
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list):
        for item in value:
            _check_content(item, name, most - 1)
