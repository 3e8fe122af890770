"""Registry of operators: settings classes by name, filled by the modules of this package."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from .settings import OperatorSettings
from .shared.checks import SettingsError

OPERATOR_SETTINGS: dict[str, type[OperatorSettings]] = {}
"""Settings class by operator type, in the order of `draw_order`, ties by name."""

_Operator = TypeVar("_Operator", bound=OperatorSettings)


def register(cls: type[_Operator]) -> type[_Operator]:
    """Class decorator that adds an operator; raises ValueError for a name that another class has."""
    other = OPERATOR_SETTINGS.get(cls.operator)
    if other is not None:
        raise ValueError(
            f"operator={cls.operator!r} of {cls.__module__}.{cls.__name__}: {other.__module__} has it; "
            "choose another name"
        )
    known: list[type[OperatorSettings]] = [*OPERATOR_SETTINGS.values(), cls]
    ordered = sorted(known, key=lambda c: (c.draw_order, c.operator))
    OPERATOR_SETTINGS.clear()
    OPERATOR_SETTINGS.update({c.operator: c for c in ordered})
    return cls


def discover(package: str, folders: Iterable[str]) -> None:
    """Imports the modules in the folders of a package by name, so that their operators are registered."""
    for name in sorted(module.name for module in pkgutil.iter_modules(folders) if not module.ispkg):
        importlib.import_module(f"{package}.{name}")


def settings_class(operator: str) -> type[OperatorSettings]:
    """Settings class of an operator type; raises SettingsError for an unknown one."""
    try:
        return OPERATOR_SETTINGS[operator]
    except KeyError:
        raise SettingsError(f"operator={operator!r}: use one of {', '.join(OPERATOR_SETTINGS)}") from None


def settings_from_dict(operator: str, values: Mapping[str, Any]) -> OperatorSettings:
    """Settings of the named operator from JSON-able values; raises SettingsError."""
    return settings_class(operator).from_dict(values)
