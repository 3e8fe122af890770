"""Inputs of a network whose extents are symbols. Works without TVM."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from ...dynamic.symbols import (
    DynamicShapeError,
    Extent,
    Symbol,
    extents_and_ranges,
    joined,
    numbers_of_dims,
    require_symbols,
    symbols_of_dims,
)
from ..inputs import InputSpec, has_value
from ..known import ZOO
from .onnx_inputs import completed, own_specs

BATCH = "batch"
"""Symbol of the leading extent where `batch` is a range."""

Sizes = Mapping[str, int]
"""A value for each symbol, by its name."""


def sizes_text(sizes: Sizes) -> str:
    """The values of the symbols, such as `b=1, n=7`."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


Shape = tuple[int | Extent, ...]


@dataclass(frozen=True)
class DynamicInputs:
    """Shapes of all inputs in terms of symbols."""

    symbols: Mapping[str, Symbol]
    shapes: tuple[Shape | None, ...]
    """Shape of each input; None for one with a value."""
    settings: tuple[Mapping[str, Any], ...]
    """What else the specification of each input has, such as its dtype."""

    def at(self, sizes: Sizes) -> list[InputSpec]:
        """Specifications of the inputs for values of the symbols."""
        return [
            dict(settings) if shape is None else {**settings, "shape": shape_at(shape, sizes)}
            for shape, settings in zip(self.shapes, self.settings, strict=True)
        ]

    @property
    def ranges(self) -> dict[str, tuple[int, int]]:
        """Smallest and largest size of each symbol, by its name."""
        return {name: (symbol.low, symbol.high) for name, symbol in self.symbols.items()}

    @property
    def counts(self) -> dict[str, Mapping[int, float]]:
        """Expected counts of the sizes of each symbol, by its name."""
        return {name: symbol.counts for name, symbol in self.symbols.items()}

    @property
    def traced(self) -> dict[str, int]:
        """Values with which the network is traced."""
        return self.traced_from(7)

    def traced_from(self, size: int) -> dict[str, int]:
        """Values near a size for a trace: different ones, and not 1, which PyTorch keeps fixed."""
        found: dict[str, int] = {}
        for name, symbol in self.symbols.items():
            near = min(symbol.high, max(symbol.low, size))
            tried = (near + step * sign for step in count() for sign in (1, -1))
            found[name] = next(
                one
                for one in tried
                if symbol.contains(one) and one > 1 and (one not in found.values() or _few(symbol))
            )
        return found

    def without_values(self) -> DynamicInputs:
        """The inputs of an ONNX file that a caller gives: inputs with a value become constants."""
        kept = [place for place, shape in enumerate(self.shapes) if shape is not None]
        shapes = tuple(self.shapes[place] for place in kept)
        return replace(self, shapes=shapes, settings=tuple(self.settings[place] for place in kept))


def _few(symbol: Symbol) -> bool:
    """Whether a range is too short for a size that no other symbol has."""
    return symbol.high - symbol.low < 8


def shape_at(shape: Shape, sizes: Sizes) -> list[int]:
    """Extents of a shape for values of the symbols."""
    return [extent.at(sizes[extent.symbol]) if isinstance(extent, Extent) else extent for extent in shape]


def is_dynamic(inputs: Any, batch: Any, dims: Mapping[str, Any] | None) -> bool:
    """Whether options ask for dynamic shapes: a text as an extent or as the batch size, or `dims`."""
    return bool(dims) or isinstance(batch, str) or any(isinstance(one, str) for one in _leaves(inputs))


def _leaves(inputs: Any) -> Iterator[Any]:
    """Extents in the shapes of `inputs`, of one network or of several."""
    if isinstance(inputs, Mapping):
        yield from _leaves(inputs.get("shape"))
    elif isinstance(inputs, Sequence) and not isinstance(inputs, str):
        for one in inputs:
            yield from _leaves(one)
    else:
        yield inputs


def dynamic_inputs(
    network: str, inputs: Sequence[InputSpec] | None, batch: Any, dims: Mapping[str, Any] | None
) -> DynamicInputs:
    """The inputs that the options of `foretune tune` describe.

    Args:
        network: name, import path or ONNX file.
        inputs: specifications with texts as extents; None for those of the name or of the
            file.
        batch: a batch size or a range such as `1:16`, for inputs that are not given.
        dims: ranges of symbols, see `symbols_of_dims`.

    Raises DynamicShapeError.
    """
    ranges, numbers = symbols_of_dims(dims or {}), numbers_of_dims(dims or {})
    if isinstance(batch, str):
        if inputs is not None:
            raise DynamicShapeError(
                f"batch={batch}: inputs= gives the shapes, batch sizes included; write the range there, as "
                'in inputs=[["n=1:16",64]]'
            )
        ranges = joined([ranges, {BATCH: Symbol.parsed(BATCH, batch)}])
    if inputs is None:
        inputs = _own_inputs(network, BATCH if isinstance(batch, str) else batch, dims or {})
    elif network.endswith(".onnx"):
        inputs = completed(Path(network), inputs)
    shapes: list[Shape | None] = []
    settings: list[Mapping[str, Any]] = []
    given: list[Mapping[str, Symbol]] = [ranges]
    for position, spec in enumerate(inputs):
        rest = dict(spec) if isinstance(spec, Mapping) else {"shape": spec}
        shape = rest.pop("shape", None)
        settings.append(rest)
        if has_value(spec) or not isinstance(shape, Sequence) or isinstance(shape, str):
            shapes.append(None)
            if shape is not None:
                rest["shape"] = shape
            continue
        extents, symbols = extents_and_ranges(shape, f"inputs[{position}]")
        shapes.append(tuple(extents))
        given.append(symbols)
    found = joined(given)
    used = [one.symbol for shape in shapes for one in shape or () if isinstance(one, Extent)]
    require_symbols(used, [*found, *numbers], network)
    if not found:
        raise DynamicShapeError(
            "dims= gives numbers alone; give a range to one of them, or the shapes in inputs="
        )
    shapes = [None if shape is None else _with_numbers(shape, numbers) for shape in shapes]
    _check_sizes(shapes, found)
    symbols = {name: found[name] for name in dict.fromkeys(used) if name in found}
    return DynamicInputs(symbols, tuple(shapes), tuple(settings))


def _check_sizes(shapes: Sequence[Shape | None], symbols: Mapping[str, Symbol]) -> None:
    """Raises DynamicShapeError for an extent that is less than 1, or can be."""
    for position, shape in enumerate(shapes):
        for extent in shape or ():
            if isinstance(extent, int) and extent < 1:
                raise DynamicShapeError(f"inputs[{position}]: the extent {extent}: a size is at least 1")
            if isinstance(extent, Extent) and extent.at(symbols[extent.symbol].low) < 1:
                low = symbols[extent.symbol].low
                raise DynamicShapeError(
                    f"inputs[{position}]: {extent} is {extent.at(low)} for {extent.symbol}={low}; a size is "
                    "at least 1"
                )


def _with_numbers(shape: Shape, numbers: Sizes) -> Shape:
    """The shape with some symbols replaced by a number."""
    return tuple(
        extent.at(numbers[extent.symbol])
        if isinstance(extent, Extent) and extent.symbol in numbers
        else extent
        for extent in shape
    )


def _own_inputs(network: str, batch: int | str, named: Collection[str]) -> list[InputSpec]:
    """Specifications of a known network, whose leading extent is the batch, or of an ONNX file."""
    if network.endswith(".onnx"):
        return own_specs(Path(network), batch, named)
    if network not in ZOO:
        raise DynamicShapeError(
            f'network={network}: an import path needs input shapes, such as inputs=[[1,"n=1:512"]]'
        )
    return [{**spec, "shape": [batch, *spec["shape"][1:]]} for spec in ZOO[network].inputs]
