"""Sizes of the inputs of a call of a network with dynamic shapes."""

from __future__ import annotations

from collections.abc import Sequence

from ...compiler.dynamic.symbols import Extent, Symbol
from ...errors import UserError
from .description import TensorSpec


class InputError(UserError, ValueError):
    """The inputs of a call do not match the network."""


class SizesOfInputs:
    """Solves the shapes of inputs for the symbols, and refuses sizes out of their ranges.

    Kernels rely on the ranges, and the memory is planned for them.
    """

    def __init__(self, specs: Sequence[TensorSpec], symbols: Sequence[Symbol]) -> None:
        self._symbols = {symbol.name: symbol for symbol in symbols}
        self._extents = [
            (position, spec.name, axis, Extent.parsed(extent, spec.name))
            for position, spec in enumerate(specs)
            for axis, extent in enumerate(spec.shape)
            if isinstance(extent, str)
        ]

    def check(self, shapes: Sequence[Sequence[int]]) -> None:
        """Raises InputError for shapes out of range, and for inputs that disagree on a symbol."""
        sizes: dict[str, tuple[int, str]] = {}
        for position, name, axis, extent in self._extents:
            given = shapes[position][axis]
            size, symbol = extent.solved(given), self._symbols[extent.symbol]
            where = f"input {name}: dimension {axis} is {given}"
            if size is None:
                raise InputError(f"{where}, and {extent} is expected: no whole number {symbol.name} gives it")
            if not symbol.contains(size):
                low, high = extent.at(symbol.low), extent.at(symbol.high)
                raise InputError(
                    f"{where}, and {extent} is {low} to {high} ({symbol}); give a size in this range, or "
                    "tune the network for a wider one"
                )
            known, place = sizes.setdefault(symbol.name, (size, f"dimension {axis} of input {name}"))
            if known != size:
                raise InputError(
                    f"{where}, so that {symbol.name} is {size}, and {known} by {place}; make them equal"
                )
