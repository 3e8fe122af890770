"""A family of kernels for one product of symbolic extents, and the function that chooses between them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm_ffi
from tvm import tirx
from tvm.tirx import IfThenElse

from ..contraction import variables_of
from .choice import MOST_MEMBERS, Family, choose, sampled_sizes
from .expected_sizes import Counts, Ends, expected_values
from .kernel_parameters import KernelParameters
from .nodes import Places, allocated, fixed, number, sequence, simple, with_values
from .panels import packed_shape, turned_panels, with_prepared, with_turned
from .prediction import MOST_PANELS, MOST_ROWS, Machine, ProductSize, cycles, members, panel_width
from .product_kernel import product_kernel
from .symbolic_product import SymbolicProduct, Weight

_POINTS = 33
"""Points of the curve along which all sizes grow together."""

_NARROW = 2
"""Kernels for fewer columns than a whole panel."""


@dataclass(frozen=True)
class FamilyTable:
    """Kernels of one product, and the sizes at which each runs."""

    least_columns: int
    """Columns from which this table holds."""
    members: tuple[KernelParameters, ...]
    breakpoints: tuple[int, ...]
    """Sizes from which the next entry of `chosen` holds."""
    chosen: tuple[int, ...]
    """Indices of members, one more than breakpoints."""
    regret_mean: float
    """Predicted time over the best candidate's, minus 1; mean over sizes, see `size_weights`."""
    regret_worst: float


@dataclass(frozen=True, eq=False)
class ProductFamily:
    """Kernels of a product in one statement."""

    product: SymbolicProduct
    width: int
    """Columns of a panel of packed weights."""
    packed: Any
    """Array of packed weights; None if they are not packed."""
    size: Any
    """Expression that the tables choose by."""
    tables: tuple[FamilyTable, ...]
    body: Any

    @property
    def layout_key(self) -> tuple[Any, ...]:
        """Equal for families that read equal panels of one constant."""
        axes = (self.product.column, *self.product.reduced)
        places = [str(at) for at in self.product.weight.indices]
        return (self.width, *places, *(axis.var.name for axis in axes))


def product_family(
    task: SymbolicProduct, ends: Ends, machine: Machine, counts: Mapping[str, Counts] | None = None
) -> ProductFamily:
    """The family of a product whose sizes have these ends.

    `counts` has how often values of a variable are expected, by its name.
    """
    sizes = _Sizes(task, ends, counts or {})
    columns = fixed(task.columns)
    widths = _widths(sizes, machine) if columns is None else [panel_width(columns, machine.lanes)]
    packed = None
    if task.layout is Weight.PACKED:
        packed = tirx.decl_buffer(packed_shape(task, widths[0]), str(task.weight.ty.dtype), "packed")
    body, tables = None, []
    for width in reversed(widths):
        below = min((other for other in widths if other > width), default=None)
        family = _family(sizes, width, below, machine)
        panels = turned_panels(task, width) if task.layout is Weight.TURNED else packed
        part = _dispatched(task, sizes.key, family, panels)
        if task.layout is Weight.TURNED:
            part = with_turned(task, panels, width, part)
        body = part if body is None else IfThenElse(number(task.columns) >= width, part, body)
        least = 1 if columns is not None or width == widths[-1] else width
        tables.append(
            FamilyTable(
                least,
                family.members,
                family.breakpoints,
                family.chosen,
                round(family.regret_mean, 4),
                round(family.regret_worst, 4),
            )
        )
    return ProductFamily(task, widths[0], packed, sizes.key, tuple(tables), with_prepared(task, body))


def _widths(sizes: _Sizes, machine: Machine) -> list[int]:
    """Widths of panels for symbolic columns, the widest first; each is for at least as many columns."""
    low, high = sizes.columns
    widths = [width for width in (machine.lanes, machine.lanes // 2, 1) if width <= high]
    unneeded = [width for width in widths if any(width < wider <= low for wider in widths)]
    return [width for width in widths if width not in unneeded]


class _Sizes:
    """Extents of a product as functions of one of them."""

    def __init__(self, task: SymbolicProduct, ends: Ends, counts: Mapping[str, Counts]) -> None:
        self.task = task
        parts = (task.row_count, task.columns, task.batch_count, task.depth)
        self.key = simple(next((part for part in parts if fixed(part) is None), number(1)))
        self.range, self.rows, self.columns = (ends(one) for one in (self.key, *parts[:2]))
        self.expected = expected_values(self.key, counts, ends)
        variables = sorted(variables_of([number(part) for part in parts]), key=lambda var: var.name)
        steps = np.linspace(0, 1, _POINTS)
        curve = []
        for step in steps:
            values = {}
            for var in variables:
                low, high = ends(var)
                values[var] = round(low * (high / low) ** step)
            curve.append([fixed(with_values(number(part), values)) for part in (self.key, *parts)])
        self._curve = np.array(curve, dtype=float)
        self._same = [bool(tvm_ffi.structural_equal(self.key, simple(part))) for part in parts]

    def at(self, key: int) -> ProductSize:
        """Extents where the first symbolic one is `key`, and all others have grown as far."""
        keys = self._curve[:, 0]
        rows, columns, batch, depth = (
            key if same else max(1, round(float(np.interp(key, keys, self._curve[:, at]))))
            for at, same in enumerate(self._same, start=1)
        )
        return ProductSize(batch, rows, columns, depth)

    @property
    def columns_follow(self) -> bool:
        """Whether the number of columns is the key."""
        return self._same[1]


def _family(sizes: _Sizes, width: int, below: int | None, machine: Machine) -> Family[KernelParameters]:
    """The family for panels of one width, for fewer columns than `below` panels are for."""
    low, high = sizes.range
    if sizes.columns_follow:
        low, high = max(low, width), high if below is None else min(high, below - 1)
    if sizes.columns_follow:
        most_panels = MOST_PANELS
    else:
        known = fixed(sizes.task.columns)
        most_panels = math.ceil(known / width) if known else max(1, sizes.columns[0] // width)
    candidates = sorted(members(width, min(MOST_ROWS, sizes.rows[1]), most_panels, machine))
    symbolic = fixed(sizes.task.columns) is None

    def predicted(member: KernelParameters, key: int) -> float:
        size = sizes.at(key)
        narrow = symbolic and sizes.columns_follow and size.columns < member.columns
        few = size.rows < member.least_rows or narrow
        return math.inf if few else cycles(member, size, machine)

    most = MOST_MEMBERS if below is None else _NARROW
    rated = sampled_sizes(low, high, sizes.expected)
    return choose(candidates, rated, predicted, most, sizes.expected)


def _dispatched(task: SymbolicProduct, key: Any, family: Family[KernelParameters], panels: Any) -> Any:
    """Statement that runs the kernel which the table names."""
    kernels = [product_kernel(task, member, panels) for member in family.members]
    if len(kernels) == 1:
        return kernels[0]
    places = Places()
    looked_up, (choice,) = places.kept([_looked_up(key, family.breakpoints, family.chosen)])
    body = kernels[-1]
    for index in reversed(range(len(kernels) - 1)):
        body = IfThenElse(choice == number(index), kernels[index], body)
    return allocated([places.array], sequence(*looked_up, body))


def _looked_up(key: Any, breakpoints: Sequence[int], chosen: Sequence[int]) -> Any:
    """Entry of a table, by comparisons that halve it."""
    if not breakpoints:
        return number(chosen[0])
    middle = len(breakpoints) // 2
    return tirx.Select(
        key < number(breakpoints[middle]),
        _looked_up(key, breakpoints[:middle], chosen[: middle + 1]),
        _looked_up(key, breakpoints[middle + 1 :], chosen[middle + 1 :]),
    )
