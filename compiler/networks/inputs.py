"""Example inputs of a network from given shapes, dtypes and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UserError
from ..dynamic.symbols import is_extent

InputSpec = Sequence[int] | Mapping[str, Any]
"""A shape, `[1, 3, 224, 224]` (float32), or `{"shape": [1, 128], "dtype": "int64", "high": 30522}`, or a
constant, `{"value": 16000}`, which may be a nested list and may have a dtype."""

VALUE = "value"


class BadInputShapeError(UserError, ValueError):
    """The network does not take the example inputs."""


@dataclass(frozen=True)
class InputRange:
    """Valid elements of an input."""

    high: int = 2
    """Integers are less than this, and at least 0."""
    fixed: bool = False
    """Whether the example input is the only valid one."""


def example_inputs(specs: Sequence[InputSpec], seed: int) -> tuple[NDArray[Any], ...]:
    """Random arrays fixed by `seed`: standard normal floats, or whole numbers in [0, high).

    The default `high` of 2 suits masks and every embedding. An input with a value has it. Raises
    BadInputShapeError.
    """
    rng = np.random.default_rng(seed)
    return tuple(
        given_value(spec, position) if has_value(spec) else _random_array(spec, position, rng)
        for position, spec in enumerate(specs)
    )


def input_ranges(specs: Sequence[InputSpec]) -> tuple[InputRange, ...]:
    """Ranges of the inputs of `example_inputs`."""
    return tuple(
        InputRange(int(spec.get("high", 2)), has_value(spec)) if isinstance(spec, Mapping) else InputRange()
        for spec in specs
    )


def own_range(array: NDArray[Any]) -> InputRange:
    """Range of an input's own elements, where no other is known."""
    return InputRange(int(array.max(initial=0)) + 1 if array.dtype.kind in "iu" else 2)


def has_value(spec: InputSpec) -> bool:
    """Whether a specification gives the value of an input."""
    return isinstance(spec, Mapping) and VALUE in spec


def given_value(spec: InputSpec, position: int, dtype: str = "", shape: Sequence[int | None] = ()) -> Any:
    """The array of a specification with a value.

    `dtype` and `shape` are those that a file declares, with None for a dynamic extent; without them, Python's
    integers become int64 and its floats float32. A single number fills the shape. Raises BadInputShapeError.
    """
    assert isinstance(spec, Mapping)
    field = f"inputs[{position}]={dict(spec)!r}"
    if unknown := sorted(set(spec) - {VALUE, "dtype"}):
        raise BadInputShapeError(f"{field}: a value has no {', '.join(unknown)}; give value and dtype only")
    try:
        plain = np.asarray(spec[VALUE])
    except ValueError as error:  # of lists of unequal lengths
        raise BadInputShapeError(f"{field}: give a number, or nested lists of equal lengths") from error
    if plain.dtype.kind not in "biuf":
        raise BadInputShapeError(f"{field}: {spec[VALUE]!r} is no number; give numbers, or true and false")
    wanted = _dtype(
        field, spec.get("dtype", dtype or ("float32" if plain.dtype.kind == "f" else plain.dtype))
    )
    if dtype and wanted != np.dtype(dtype):
        raise BadInputShapeError(f"{field}: the file declares {dtype}; leave dtype out")
    with np.errstate(over="ignore", invalid="ignore"):
        array = plain.astype(wanted)
    if wanted.kind != "f" and not np.array_equal(array, plain):
        raise BadInputShapeError(f"{field}: {wanted} does not hold {spec[VALUE]!r}; correct the value")
    if array.ndim == 0 and shape and None not in shape:
        array = np.full(tuple(int(extent or 0) for extent in shape), array)
    fits = len(shape) == array.ndim and all(
        extent in (None, given) for extent, given in zip(shape, array.shape, strict=True)
    )
    if dtype and not fits:
        shown = ["any" if extent is None else extent for extent in shape]
        raise BadInputShapeError(
            f"{field}: the value has shape {list(array.shape)}, and the file declares {shown}; correct it"
        )
    return array


def _dtype(field: str, name: Any) -> np.dtype[Any]:
    try:
        dtype = np.dtype(name)
    except TypeError as error:
        raise BadInputShapeError(f"{field}: {error}; use float32, int64 or another numpy dtype") from error
    if dtype.kind not in "fiub" or (dtype.kind == "f" and dtype.itemsize < 2):
        raise BadInputShapeError(f"{field}: dtype {dtype} cannot be an input; use float32, int64 or bool")
    return dtype


def _random_array(spec: InputSpec, position: int, rng: np.random.Generator) -> NDArray[Any]:
    settings: dict[str, Any] = dict(spec) if isinstance(spec, Mapping) else {"shape": spec}
    field = f"inputs[{position}]={spec!r}"
    unknown = sorted(set(settings) - {"shape", "dtype", "high"})
    shape = settings.get("shape")
    if unknown or not isinstance(shape, Sequence) or isinstance(shape, str):
        raise BadInputShapeError(
            f'{field}: give a shape, or {{"shape": [1, 128], "dtype": "int64", "high": 100}}, or a constant '
            'as {"value": 16000}'
        )
    texts = [extent for extent in shape if isinstance(extent, str)]
    if texts and (is_extent(texts[0]) or "=" in texts[0]):
        raise BadInputShapeError(
            f"{field}: {texts[0]} is an extent of dynamic shapes, which only foretune tune and foretune "
            "inspect take; give a number"
        )
    if not all(isinstance(extent, int) and extent > 0 for extent in shape):
        raise BadInputShapeError(f"{field}: every extent must be a whole number of at least 1")
    high = settings.get("high", 2)
    if not isinstance(high, int) or high < 1:
        raise BadInputShapeError(f"{field}: high={high!r} must be a whole number of at least 1")
    dtype = _dtype(field, settings.get("dtype", "float32"))
    if dtype.kind == "f":
        return rng.standard_normal(tuple(shape)).astype(dtype)
    return rng.integers(0, high, size=tuple(shape)).astype(dtype)


def other_array(array: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Another random array like this one: normal floats, or its integers in another order."""
    if array.dtype.kind == "f":
        return rng.standard_normal(array.shape).astype(array.dtype)
    return rng.permutation(array.reshape(-1)).reshape(array.shape)


def edge_array(array: NDArray[Any], high: int) -> NDArray[Any]:
    """An array like this one with zeros, negative values, large values and equal elements.

    Floats are, in turn, an element of `array`, its negative, 0, ten times the element, -1 and 1. Integers
    are, in turn, `high` - 1, an element of `array`, 0 and `high` - 1.
    """
    flat = array.reshape(-1).copy()
    if array.dtype.kind == "f":
        flat[1::6] *= -1
        flat[2::6] = 0
        flat[3::6] *= 10
        flat[4::6] = -1
        flat[5::6] = 1
    else:
        flat[0::4] = high - 1
        flat[2::4] = 0
        flat[3::4] = high - 1
    return flat.reshape(array.shape)
