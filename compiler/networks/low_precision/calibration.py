"""Inputs by which the scales of a quantised network are found: a user's, or random ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import UserError
from ....wording import counted
from ..input_file import InputFileError, arrays_in_file
from ..loading import Network

RANDOM_INPUTS = 8
"""Random inputs if the user gives no file, the example inputs among them."""

_FIRST_SEED = 1000
"""Seeds of other random inputs than those on which outputs are compared."""


class CalibrationError(UserError, ValueError):
    """The file of calibration inputs does not fit the network."""


def calibration_inputs(network: Network, file: str | Path | None) -> list[tuple[NDArray[Any], ...]]:
    """Inputs of the network's shapes, one tuple for each run.

    `file` is a .npz with one array for each input, in their order. Along its first axis, an array has the
    inputs of one run after the other. None takes the example inputs and random ones. Raises CalibrationError.
    """
    if file is None:
        others = (network.with_other_inputs(_FIRST_SEED + number) for number in range(1, RANDOM_INPUTS))
        return [network.inputs, *(other.inputs for other in others)]
    return list(_inputs_in_file(network, file))


def _inputs_in_file(network: Network, file: str | Path) -> Iterator[tuple[NDArray[Any], ...]]:
    field = f"lowering.calibration={file}"
    try:
        arrays = list(arrays_in_file(field, file).values())
    except InputFileError as error:
        raise CalibrationError(str(error)) from error
    if len(arrays) != len(network.inputs):
        raise CalibrationError(
            f"{field}: {counted(len(arrays), 'array')}, but network={network.name} has "
            f"{counted(len(network.inputs), 'input')}; "
            "give one array for each, in their order"
        )
    pairs = enumerate(zip(arrays, network.inputs, strict=True))
    counts = {_runs(field, number, array, shaped) for number, (array, shaped) in pairs}
    if len(counts) > 1:
        raise CalibrationError(
            f"{field}: the arrays hold {' and '.join(map(str, sorted(counts)))} runs; give as many of each "
            "input"
        )
    for run in range(counts.pop()):
        yield tuple(
            np.ascontiguousarray(array[run * len(shaped) : (run + 1) * len(shaped)], dtype=shaped.dtype)
            for array, shaped in zip(arrays, network.inputs, strict=True)
        )


def _runs(field: str, number: int, array: NDArray[Any], shaped: NDArray[Any]) -> int:
    """Runs that an array holds inputs for. Raises CalibrationError if it does not fit."""
    fits = array.ndim == shaped.ndim > 0 and array.shape[1:] == shaped.shape[1:]
    if not fits or not len(array) or len(array) % len(shaped):
        raise CalibrationError(
            f"{field}: array {number} has shape {list(array.shape)}, and the input {list(shaped.shape)}; the "
            "first axis may hold several inputs, one after the other, the others must be equal"
        )
    if array.dtype.kind != shaped.dtype.kind:
        raise CalibrationError(
            f"{field}: array {number} is {array.dtype}, and the input is {shaped.dtype}; convert it"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise CalibrationError(
            f"{field}: array {number} has values that are not finite; leave those inputs out"
        )
    return len(array) // len(shaped)
