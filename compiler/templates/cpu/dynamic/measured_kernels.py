"""Measured times of a few kernels at a few sizes, which correct the closed form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import fmean
from typing import Any

import numpy as np
import tvm
from numpy.typing import ArrayLike, NDArray
from tvm.tirx import PrimFunc

from .kernel_parameters import KernelParameters
from .nodes import number, scheduled_function

Measure = Callable[[Sequence[tvm.IRModule]], Sequence[float | None]]
"""Seconds of scheduled modules with fixed extents, in order; None for one that was not measured."""

ANCHORS = (1 / 6, 1 / 2, 5 / 6)
"""Places in a range that stand for all of it, on a logarithmic scale."""

MEASURED = ANCHORS[1:]
"""Places of the measured sizes. Small sizes are left out: the closed form nearly always ranks the fastest
kernel first there, and each measured kernel takes a compilation."""


def size_at(low: int, high: int, place: float) -> int:
    """Size at a place of a range, from 0 to 1 on a logarithmic scale."""
    return round(low * (high / low) ** place)


@dataclass(frozen=True)
class MeasuredKernel:
    """Time of a kernel at one size."""

    member: KernelParameters
    size: int
    """Value of the expression that the tables choose by."""
    cycles: float
    """Prediction of the closed form."""
    seconds: float


def with_sizes(params: Sequence[Any], body: Any, values: Mapping[Any, int]) -> tvm.IRModule:
    """A function of these parameters and this body, with values in place of symbolic extents, as a module."""
    further = [var for var in values if not any(var.same_as(param) for param in params)]
    func: PrimFunc = scheduled_function([*params, *further], body).with_attrs(
        {"global_symbol": "main", "tirx.noalias": True}
    )
    return tvm.IRModule({"main": func.specialize({var: number(value) for var, value in values.items()})})


class Correction:
    """Factor from predicted cycles to seconds, for each register tile and size.

    Between two measured sizes, the logarithm of a tile's factor is linear in the logarithm of the size;
    outside, it is constant. At a size at which a tile was not measured, it has the mean factor of the
    measured ones, times its own mean deviation from such means at other sizes.
    """

    def __init__(self, measured: Sequence[MeasuredKernel]) -> None:
        self._sizes = sorted({one.size for one in measured})
        logs = {(_tile(one.member), one.size): log(one.seconds / one.cycles) for one in measured}
        mean = {size: fmean(value for (_, at), value in logs.items() if at == size) for size in self._sizes}
        self._mean = list(mean.values())
        self._logs: dict[tuple[int, ...], list[float]] = {}
        for tile in {tile for tile, _ in logs}:
            own = {size: logs[tile, size] for size in self._sizes if (tile, size) in logs}
            deviation = fmean(value - mean[size] for size, value in own.items())
            self._logs[tile] = [own.get(size, mean[size] + deviation) for size in self._sizes]

    def factors(self, member: KernelParameters, sizes: ArrayLike) -> NDArray[np.float64]:
        """Seconds for each predicted cycle at each size; 1 if nothing was measured."""
        if not self._sizes:
            return np.ones(np.shape(sizes))
        logs = self._logs.get(_tile(member), self._mean)
        return np.exp(np.interp(np.log(sizes), np.log(self._sizes), logs))


def _tile(member: KernelParameters) -> tuple[int, ...]:
    return member.rows, member.panels, member.width
