"""Winograd's algorithm in addition to the direct kernels of a convolution of symbolic extents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import tirx
from tvm.tirx import IfThenElse

from .....operators.convolutions.winograd import TRANSFORMS
from .....operators.convolutions.winograd_rounding import is_accurate
from .....types import WIDE
from ..expected_sizes import Ends
from ..measured_kernels import ANCHORS, MEASURED, Measure, size_at, with_sizes
from ..nodes import fixed, number, with_values
from ..prediction import Machine, ProductSize, cycles
from ..product_family import ProductFamily, parameters
from .convolution import SymbolicConvolution, read_convolution, transformed_panels, weight_of
from .winograd_choice import Values, WinogradCycles, WinogradUse, predicted, rows_of_taps, use_of
from .winograd_kernel import WinogradParameters, winograd_kernel


@dataclass(frozen=True, eq=False)
class WinogradFamily:
    """A kernel of Winograd's algorithm, and the direct kernels for sizes at which these are faster."""

    conv: SymbolicConvolution
    use: WinogradUse
    panels: Any
    """Array of the transformed weight, which is a parameter after the weight."""
    body: Any
    """Statement of both."""

    @property
    def layout_key(self) -> tuple[int, int]:
        """Equal for families that read equal panels of one constant."""
        return self.use.kernel.tile, self.use.kernel.member.width

    def panels_of(self, weight: NDArray[np.float32]) -> NDArray[np.float32]:
        """Values of `panels` for a weight of the network."""
        tile, width = self.layout_key
        return transformed_panels(weight, self.conv.product, TRANSFORMS[tile], width)


def winograd_family(
    family: ProductFamily,
    weights: Sequence[NDArray[np.float32]],
    tiles: Sequence[int],
    ends: Ends,
    machine: Machine,
    measure: Measure | None = None,
) -> WinogradFamily | None:
    """Winograd's algorithm for a convolution; None if it is too inaccurate, or hardly faster at any size.

    Args:
        family: direct kernels.
        weights: weights of all calls.
        tiles: tile sizes to choose from.
        ends: smallest and largest value of a size.
        machine: CPU.
        measure: times the kernel at a few sizes, which corrects the prediction.
    """
    task = family.product
    conv = read_convolution(task, machine.lanes) if tiles else None
    if conv is None:
        return None
    every = [TRANSFORMS[tile] for tile in tiles]
    accurate = [one for one in every if is_accurate((weight_of(array, task) for array in weights), one)]
    if not accurate:
        return None
    *sizes, largest = ({var: size_at(*ends(var), at) for var in task.symbols} for at in (*ANCHORS, 1))
    row_cycles = _direct_cycles(family, largest, machine) / rows_of_taps(conv, largest)
    found = predicted(conv, accurate, [*sizes, largest], row_cycles, machine)
    use = use_of(conv, found, row_cycles, largest)
    if use is None:
        return None
    panels = _panels(conv, found.kernel)
    kernel = winograd_kernel(conv, found.kernel, panels)
    if measure is not None:
        params = [*parameters(task, family.packed), panels]
        measured = sizes[-len(MEASURED) :]
        seconds = measure([with_sizes(params, kernel, values) for values in measured])
        found = found.times(_correction(conv, found, row_cycles, family, measured, seconds))
        use = use_of(conv, found, row_cycles, largest)
    if use is None:
        return None
    return WinogradFamily(conv, use, panels, IfThenElse(use.condition(conv), kernel, family.body))


def _panels(conv: SymbolicConvolution, kernel: WinogradParameters) -> Any:
    width = kernel.member.width
    shape = [-(-conv.out_channels // width), kernel.elements, conv.in_channels, width]
    return tirx.decl_buffer(shape, WIDE, "transformed_weight")


def _direct_cycles(family: ProductFamily, largest: Values, machine: Machine) -> float:
    """Predicted cycles of the direct kernel that runs at the largest sizes."""
    (table,) = family.tables
    parts = [fixed(with_values(number(part), largest)) or 0 for part in family.product.parts]
    return cycles(table.members[table.chosen[-1]], ProductSize(*parts), machine)


def _correction(
    conv: SymbolicConvolution,
    found: WinogradCycles,
    row_cycles: float,
    family: ProductFamily,
    sizes: Sequence[Values],
    seconds: Sequence[float | None],
) -> float:
    """Measured over predicted time of the kernel, both compared with the direct kernels; 1 if unknown."""
    logs = []
    for values, own in zip(sizes, seconds, strict=True):
        size = fixed(with_values(number(family.size), values))
        direct = [one.seconds for one in family.tables[0].measured if one.size == size]
        if own is not None and direct:
            expected = found.at(conv, values) / (row_cycles * rows_of_taps(conv, values))
            logs.append(log(own / min(direct) / expected))
    return exp(fmean(logs)) if logs else 1.0
