"""Rounding errors of a network's outputs, by evaluations that round otherwise. Works without TVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .operator_mode import OperatorMode

ROUNDINGS = 3
"""Evaluations of inputs that differ in their last bit, by which rounding errors are found."""

_NEARLY_ZERO = 1e-30
"""Replaces zeros where equal elements must differ."""

_TIED_BITS = 3

Arrays = tuple[NDArray[Any], ...]


class NarrowTypes(OperatorMode):
    """Context that notes the floating types of less than 32 bits that PyTorch computes in."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[torch.dtype] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Calls the operator."""
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, list | tuple) else [made]:
            if isinstance(tensor, torch.Tensor) and tensor.dtype in (torch.float16, torch.bfloat16):
                self.found.add(tensor.dtype)
        return made

    def roundings(self, outputs: Sequence[NDArray[Any]]) -> list[float]:
        """Largest rounding of each output in the widest step of these types, 0 without any."""
        step = max((torch.finfo(dtype).eps for dtype in self.found), default=0.0)
        return [
            step / 2 * float(np.abs(one).max(initial=0.0, where=np.isfinite(one)))
            if one.dtype.kind == "f"
            else 0.0
            for one in outputs
        ]


def nudged(inputs: Arrays, *, ties: bool = False) -> Iterator[Arrays]:
    """The inputs with other last bits, ROUNDINGS times; none if no input is floating.

    With `ties`, the last three bits differ, and zeros become tiny numbers, so that hardly two elements are
    equal.
    """
    if not any(array.dtype.kind == "f" for array in inputs):
        return
    for seed in range(ROUNDINGS):
        rng = np.random.default_rng(seed)
        yield tuple(_nudged(array, rng, ties) if array.dtype.kind == "f" else array for array in inputs)


def _nudged(array: NDArray[Any], rng: np.random.Generator, ties: bool) -> NDArray[Any]:
    noise = rng.standard_normal(array.shape)
    bits = _TIED_BITS if ties else 0
    other = array * (1 + noise * 2**bits * np.finfo(array.dtype).epsneg)
    if ties:
        other = np.where(array == 0, noise * _NEARLY_ZERO, other)
    return other.astype(array.dtype)


def largest_errors(
    evaluations: Sequence[Sequence[NDArray[Any]]], exact: Sequence[NDArray[Any]]
) -> list[float]:
    """Largest difference of any evaluation from `exact`, for each output.

    Integers, booleans and infinite differences do not count.
    """
    return [
        max((_rounding(array, wide) for array in arrays), default=0.0)
        for wide, *arrays in zip(exact, *evaluations, strict=True)
    ]


def _rounding(array: NDArray[Any], exact: NDArray[Any]) -> float:
    """Largest finite difference of floating elements, 0 for others."""
    if array.dtype.kind in "biu":
        return 0.0
    with np.errstate(invalid="ignore"):  # of infinite elements
        gap = np.abs(exact.astype(np.float64) - array.astype(np.float64))
    return float(gap.max(initial=0.0, where=np.isfinite(gap)))


def changing_elements(
    evaluations: Sequence[Sequence[NDArray[Any]]], reference: Sequence[NDArray[Any]]
) -> list[NDArray[np.bool_]]:
    """Elements of each output that differ in any evaluation; for each, an array of the output's shape."""
    return [
        np.logical_or.reduce([array != expected for array in arrays] or [np.zeros(expected.shape, bool)])
        for expected, *arrays in zip(reference, *evaluations, strict=True)
    ]
