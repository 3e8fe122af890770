"""Symbols of dynamic shapes, their ranges, and extents in terms of them. Works without TVM."""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import UserError

BEYOND = "beyond"
"""Name of the function of a library that runs sizes outside of the ranges."""

EXAMPLE = '[[1,"n=1:512"]]'
_RANGE = re.compile(r"\s*(-?\d+)\s*:\s*(-?\d+)\s*")
_NAME = re.compile(r"[A-Za-z_]\w*")
_EXTENT = re.compile(
    r"\s*(?:(?P<before>\d+)\s*\*\s*)?(?P<name>[A-Za-z_]\w*)(?:\s*\*\s*(?P<after>\d+))?"
    r"\s*(?:(?P<sign>[+-])\s*(?P<offset>\d+))?\s*"
)


class DynamicShapeError(UserError, ValueError):
    """A symbol, its range, or an extent in terms of it is invalid."""


@dataclass(frozen=True)
class Symbol:
    """Extent that a caller chooses in each call."""

    name: str
    low: int
    """Smallest value, at least 1."""
    high: int
    """Largest value."""
    counts: Mapping[int, float] = field(default_factory=dict)
    """How often each value is expected, for the tuner to weigh; empty if all are equally likely."""

    def __post_init__(self) -> None:
        shown = f"{self.name}={self.low}:{self.high}"
        if self.low < 1:
            raise DynamicShapeError(f"{shown}: a size is at least 1; begin the range there")
        if self.high < self.low:
            raise DynamicShapeError(f"{shown}: the range is empty; write {self.high}:{self.low}")
        if self.high == self.low:
            raise DynamicShapeError(f"{shown}: the range has one size; write {self.low} in its place")
        outside = [size for size in self.counts if not self.low <= size <= self.high]
        if outside:
            raise DynamicShapeError(
                f"{shown}: its sizes contain {outside[0]}, which is outside; widen the range or leave it out"
            )

    def __str__(self) -> str:
        return f"{self.name}={self.low}:{self.high}"

    def contains(self, size: int) -> bool:
        """Whether a size is in the range."""
        return self.low <= size <= self.high

    @classmethod
    def parsed(cls, name: str, text: Any, sizes: Any = None) -> Symbol:
        """The symbol with a range such as `1:512`. Raises DynamicShapeError."""
        found = _RANGE.fullmatch(text) if isinstance(text, str) else None
        if not _NAME.fullmatch(name) or found is None:
            raise DynamicShapeError(f"{name}={text}: no range; write it as LOW:HIGH, as in 1:512")
        return cls(name, int(found[1]), int(found[2]), {} if sizes is None else read_sizes(name, Path(sizes)))


@dataclass(frozen=True)
class Extent:
    """Extent of an input: `factor * symbol + offset`."""

    symbol: str
    factor: int = 1
    offset: int = 0

    def __str__(self) -> str:
        product = self.symbol if self.factor == 1 else f"{self.factor}*{self.symbol}"
        return f"{product}{self.offset:+}" if self.offset else product

    def at(self, size: int) -> int:
        """The extent for a value of the symbol."""
        return self.factor * size + self.offset

    def solved(self, extent: int) -> int | None:
        """Value of the symbol that gives an extent; None if no whole number does."""
        size, rest = divmod(extent - self.offset, self.factor)
        return None if rest else size

    @classmethod
    def parsed(cls, text: str, where: str) -> Extent:
        """The extent of a text such as `n`, `8*n` or `n+1`. Raises DynamicShapeError, which names `where`."""
        found = _EXTENT.fullmatch(text)
        if found is None or not is_extent(text):
            raise DynamicShapeError(
                f"{where}: {text!r} is no extent; write a number, a range such as n=1:512, or n, 8*n or n+1"
            )
        factor = int(found["before"] or found["after"] or 1)
        offset = int(found["offset"] or 0) * (-1 if found["sign"] == "-" else 1)
        if factor < 1:
            raise DynamicShapeError(f"{where}: {text!r} is always the same; write the number")
        return cls(found["name"], factor, offset)


def is_extent(text: str) -> bool:
    """Whether a text is an extent such as `n`, `8*n` or `n+1`."""
    found = _EXTENT.fullmatch(text)
    return found is not None and not (found["before"] and found["after"])


def extents_and_ranges(shape: Iterable[Any], where: str) -> tuple[list[int | Extent], dict[str, Symbol]]:
    """A shape with texts such as `n=1:512` or `8*n` as extents, and the symbols whose range it gives.

    Raises DynamicShapeError.
    """
    extents: list[int | Extent] = []
    symbols: dict[str, Symbol] = {}
    for given in shape:
        if not isinstance(given, str):
            extents.append(given)
            continue
        text, equals, given_range = given.partition("=")
        extents.append(Extent.parsed(text, where))
        if equals:
            name = text.strip()
            if not _NAME.fullmatch(name):
                raise DynamicShapeError(
                    f"{where}: {given!r}: only a symbol has a range; write {EXAMPLE}, and {name} elsewhere"
                )
            symbols = joined([symbols, {name: Symbol.parsed(name, given_range.strip())}])
    return extents, symbols


def joined(found: Iterable[Mapping[str, Symbol]]) -> dict[str, Symbol]:
    """All symbols; raises DynamicShapeError for one with two ranges."""
    symbols: dict[str, Symbol] = {}
    for each in found:
        for name, symbol in each.items():
            known = symbols.setdefault(name, symbol)
            if (known.low, known.high) != (symbol.low, symbol.high):
                raise DynamicShapeError(
                    f"{known} and {symbol}: {name} has two ranges; give one, or use two names"
                )
    return symbols


def numbers_of_dims(dims: Mapping[str, Any]) -> dict[str, int]:
    """Symbols to which the option `dims` gives a number in place of a range: `{batch: 1}`.

    Raises DynamicShapeError.
    """
    found = {name: given for name, given in dims.items() if type(given) is int}
    for name, number in found.items():
        if number < 1:
            raise DynamicShapeError(f"dims.{name}={number}: a size is at least 1")
    return found


def symbols_of_dims(dims: Mapping[str, Any]) -> dict[str, Symbol]:
    """Symbols of the option `dims`: `{n: 1:512}`, or `{n: {range: 1:512, sizes: lengths.csv}}`.

    Symbols with a number are left out, see `numbers_of_dims`. Raises DynamicShapeError.
    """
    found = {}
    for name, given in dims.items():
        if type(given) is int:
            continue
        settings = dict(given) if isinstance(given, Mapping) else {"range": given}
        if unknown := sorted(set(settings) - {"range", "sizes"}):
            raise DynamicShapeError(
                f"dims.{name}.{unknown[0]}: unknown; give dims.{name}=1:512, or dims.{name}.range=1:512 and "
                f"dims.{name}.sizes=FILE"
            )
        if settings.get("range") is None:
            raise DynamicShapeError(f"dims.{name}: has no range; give dims.{name}.range=1:512")
        try:
            found[name] = Symbol.parsed(name, settings["range"], settings.get("sizes"))
        except DynamicShapeError as error:
            raise DynamicShapeError(f"dims.{error}") from error
    return found


def require_symbols(used: Iterable[str], given: Collection[str], network: str) -> None:
    """Raises DynamicShapeError for a symbol that is not given, and for a given one that is not used."""
    names = sorted(set(used))
    for name in names:
        if name not in given:
            raise DynamicShapeError(
                f"{name} has no range; give dims.{name}=1:512, or write {name}=1:512 once, or give a number: "
                f"dims.{name}=1"
            )
    for name in given:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            known = ", ".join(names) or "none"
            raise DynamicShapeError(
                f"dims.{name}: network={network} has no extent of this name; {hint}its symbols are {known}"
            )


def read_sizes(name: str, path: Path) -> dict[int, float]:
    """Sizes of a file with how often each occurs: a size a line, or a size and its count.

    A first line of words is a heading. Raises DynamicShapeError, whose message follows `dims.`.
    """
    counts: dict[int, float] = {}
    try:
        with path.open(newline="") as file:
            rows = [row for row in csv.reader(file) if any(map(str.strip, row))]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DynamicShapeError(f"{name}.sizes={path}: cannot be read: {error}") from error
    for number, row in enumerate(rows):
        try:
            size, count = int(row[0]), float(row[1]) if len(row) > 1 else 1.0
        except ValueError as error:
            if number == 0:
                continue
            raise DynamicShapeError(
                f"{name}.sizes={path}: {','.join(row)!r} is no size; write a size a line, or SIZE,COUNT"
            ) from error
        if not count > 0:
            raise DynamicShapeError(f"{name}.sizes={path}: {size} has the count {count}; give more than 0")
        counts[size] = counts.get(size, 0.0) + count
    if not counts:
        raise DynamicShapeError(f"{name}.sizes={path}: has no sizes; write one a line")
    return counts
