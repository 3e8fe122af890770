"""Inputs of a network whose extents are symbols. Works without TVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from ...dynamic.symbols import (
    DynamicShapeError,
    Extent,
    Symbol,
    extents_and_ranges,
    joined,
    require_symbols,
    symbols_of_dims,
)
from ..inputs import InputSpec, has_value
from ..known import ZOO

BATCH = "batch"
"""Symbol of the leading extent where `batch` is a range."""

Sizes = Mapping[str, int]
"""A value for each symbol, by its name."""

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
    def traced(self) -> dict[str, int]:
        """Values with which the network is traced: different ones, and not 1, which PyTorch keeps fixed."""
        found: dict[str, int] = {}
        for name, symbol in self.symbols.items():
            near = min(symbol.high, max(symbol.low, 7))
            tried = (near + step * sign for step in count() for sign in (1, -1))
            found[name] = next(
                size
                for size in tried
                if symbol.contains(size) and size > 1 and (size not in found.values() or _few(symbol))
            )
        return found


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
        network: name or import path.
        inputs: specifications with texts as extents; None for those of the name.
        batch: a batch size or a range such as `1:16`, for inputs that are not given.
        dims: ranges of symbols, see `symbols_of_dims`.

    Raises DynamicShapeError.
    """
    if network.endswith(".onnx"):
        raise DynamicShapeError(
            f"network={network}: ONNX files have no dynamic shapes here yet; give the PyTorch module, or "
            "fixed shapes"
        )
    ranges = symbols_of_dims(dims or {})
    if isinstance(batch, str):
        if inputs is not None:
            raise DynamicShapeError(
                f"batch={batch}: inputs= gives the shapes, batch sizes included; write the range there, as "
                'in inputs=[["n=1:16",64]]'
            )
        ranges = joined([ranges, {BATCH: Symbol.parsed(BATCH, batch)}])
    if inputs is None:
        inputs = _own_inputs(network, BATCH if isinstance(batch, str) else batch)
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
    require_symbols(used, found, network)
    for position, shape in enumerate(shapes):
        for extent in shape or ():
            if isinstance(extent, Extent) and extent.at(found[extent.symbol].low) < 1:
                low = found[extent.symbol].low
                raise DynamicShapeError(
                    f"inputs[{position}]: {extent} is {extent.at(low)} for {extent.symbol}={low}; a size is "
                    "at least 1"
                )
    return DynamicInputs({name: found[name] for name in dict.fromkeys(used)}, tuple(shapes), tuple(settings))


def _own_inputs(network: str, batch: int | str) -> list[InputSpec]:
    """Specifications of a known network, whose leading extent is the batch."""
    if network not in ZOO:
        raise DynamicShapeError(
            f'network={network}: an import path needs input shapes, such as inputs=[[1,"n=1:512"]]'
        )
    return [{**spec, "shape": [batch, *spec["shape"][1:]]} for spec in ZOO[network].inputs]
