"""Example inputs of a network from given shapes and dtypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UserError

InputSpec = Sequence[int] | Mapping[str, Any]
"""A shape, `[1, 3, 224, 224]` (float32), or `{"shape": [1, 128], "dtype": "int64", "high": 30522}`.

An input of an ONNX file may be `{"value": [1, -1]}`: it becomes a constant of the network.
"""

VALUE = "value"
"""Key of a specification that makes an input constant."""


class BadInputShapeError(UserError, ValueError):
    """The network does not take the example inputs."""


def example_inputs(specs: Sequence[InputSpec], seed: int) -> tuple[NDArray[Any], ...]:
    """Random arrays fixed by `seed`: standard normal floats, or whole numbers in [0, high).

    The default `high` of 2 suits masks and every embedding. Raises BadInputShapeError.
    """
    rng = np.random.default_rng(seed)
    return tuple(_random_array(spec, position, rng) for position, spec in enumerate(specs))


def _random_array(spec: InputSpec, position: int, rng: np.random.Generator) -> NDArray[Any]:
    settings: dict[str, Any] = dict(spec) if isinstance(spec, Mapping) else {"shape": spec}
    field = f"inputs[{position}]={spec!r}"
    unknown = sorted(set(settings) - {"shape", "dtype", "high"})
    shape = settings.get("shape")
    if unknown or not isinstance(shape, Sequence) or isinstance(shape, str):
        raise BadInputShapeError(
            f'{field}: give a shape, or {{"shape": [1, 128], "dtype": "int64", "high": 100}}'
        )
    if not all(isinstance(extent, int) and extent > 0 for extent in shape):
        raise BadInputShapeError(f"{field}: every extent must be a whole number of at least 1")
    high = settings.get("high", 2)
    if not isinstance(high, int) or high < 1:
        raise BadInputShapeError(f"{field}: high={high!r} must be a whole number of at least 1")
    try:
        dtype = np.dtype(settings.get("dtype", "float32"))
    except TypeError as error:
        raise BadInputShapeError(f"{field}: {error}; use float32, int64 or another numpy dtype") from error
    if dtype.kind == "f":
        return rng.standard_normal(tuple(shape)).astype(dtype)
    if dtype.kind in "iub":
        return rng.integers(0, high, size=tuple(shape)).astype(dtype)
    raise BadInputShapeError(f"{field}: dtype {dtype} cannot be an input; use float32, int64 or bool")
