"""Checks of single fields of an operator's settings."""

from __future__ import annotations

from typing import Any, ClassVar

from ....errors import UserError

COUNTS = {2: "two", 3: "three"}


class SettingsError(UserError, ValueError):
    """Settings that no operator has."""


class CheckedFields:
    """Checks that a settings class calls in its `__post_init__`. Each raises SettingsError."""

    operator: ClassVar[str]

    def _check_choice(self, field: str, choices: tuple[Any, ...]) -> None:
        value = getattr(self, field)
        if value not in choices:
            raise SettingsError(
                f"{self.operator}: {field}={value!r}: use one of {', '.join(map(str, choices))}"
            )

    def _check_at_least(self, smallest: int, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
                raise SettingsError(
                    f"{self.operator}: {name}={value!r}: give a whole number of at least {smallest}"
                )

    def _set_extents(self, smallest: int, axes: int, *names: str) -> None:
        """Stores each field as a tuple with one whole number per axis; a single number stands for all axes.

        The field of an operator with one axis stays a number.
        """
        if axes == 1:
            self._check_at_least(smallest, *names)
            return
        for name in names:
            value = getattr(self, name)
            extents = (value,) * axes if isinstance(value, int) else tuple(value or ())
            whole = all(isinstance(v, int) and not isinstance(v, bool) and v >= smallest for v in extents)
            if len(extents) != axes or not whole:
                raise SettingsError(
                    f"{self.operator}: {name}={value!r}: give one or {COUNTS[axes]} whole numbers of at "
                    f"least {smallest}"
                )
            object.__setattr__(self, name, extents)
