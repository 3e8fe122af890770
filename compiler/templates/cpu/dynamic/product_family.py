"""A family of kernels for one product of symbolic extents, and the function that chooses between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tvm
import tvm_ffi
from numpy.typing import NDArray
from tvm import tirx
from tvm.tirx import IfThenElse

from ..contraction import variables_of
from .choice import MOST_MEMBERS, Family, cheapest, choose, sampled_sizes
from .expected_sizes import Counts, Ends, expected_values
from .kernel_parameters import KernelParameters
from .measured_kernels import MEASURED, Correction, Measure, MeasuredKernel, size_at, with_sizes
from .nodes import Places, allocated, fixed, number, sequence, simple, with_values
from .panels import packed_shape, turned_panels, with_prepared, with_turned
from .prediction import MOST_PANELS, MOST_ROWS, Machine, ProductSizes, cycles_at, members, panel_widths
from .product_kernel import product_kernel
from .symbolic_product import SymbolicProduct, Weight

_POINTS = 33
"""Points of the curve along which all sizes grow together."""

_NARROW = 2
"""Kernels for fewer columns than a whole panel."""

_TRIED = 4
"""Register tiles that are measured at one size."""


class _Trial(NamedTuple):
    """Kernel to measure."""

    member: KernelParameters
    size: int
    """Value of the expression that the tables choose by."""
    values: Mapping[Any, int]
    """Value of each symbolic extent."""
    cycles: float
    """Prediction of the closed form."""


_Time = Callable[[Sequence[_Trial]], Sequence[float | None]]


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
    measured: tuple[MeasuredKernel, ...]
    """Kernels that were measured, and corrected the predictions."""


@dataclass(frozen=True, eq=False)
class ProductFamily:
    """Kernels of a product in one statement."""

    product: SymbolicProduct
    width: int
    """Columns of a panel of packed weights."""
    step: int
    """Terms of a word of packed weights."""
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
    task: SymbolicProduct,
    ends: Ends,
    machine: Machine,
    counts: Mapping[str, Counts] | None = None,
    measure: Measure | None = None,
) -> ProductFamily:
    """The family of a product whose sizes have these ends.

    `counts` has how often values of a variable are expected, by its name. `measure` times a few kernels for
    at least a whole panel of columns, which corrects the predictions.
    """
    sizes = _Sizes(task, ends, counts or {})
    columns = fixed(task.columns)
    widths = _widths(sizes, machine) if columns is None else panel_widths(columns, machine.lanes)
    if columns is not None and task.layout is not Weight.PACKED:
        widths = widths[:1]  # a weight that is not packed is no single stream
    choices = [[width] for width in widths] if columns is None else [widths]
    packed, body, tables = None, None, []
    for choice in reversed(choices):
        below = min((other for (other, *_) in choices if other > choice[0]), default=None)
        time = None if measure is None or below is not None else _time(task, measure)
        family, measured = _family(sizes, choice, below, machine, time)
        width, step = family.members[0].width, family.members[0].step
        dispatched = partial(_dispatched, key=sizes.key, family=family)
        packed, part = _with_panels(task, width, step, dispatched)
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
                tuple(measured),
            )
        )
    return ProductFamily(task, width, step, packed, sizes.key, tuple(tables), with_prepared(task, body))


def _with_panels(
    task: SymbolicProduct, width: int, step: int, body: Callable[[SymbolicProduct, Any], Any]
) -> tuple[Any, Any]:
    """Array of packed weights, None without, and the statement that computes a task.

    `body` makes it from the task as kernels of this width and step read it, and from the array of panels,
    None for a weight that is read where it is. Panels that each call makes are filled first.
    """
    task = task.in_words(step)
    if task.layout is Weight.PACKED:
        packed = tirx.decl_buffer(packed_shape(task, width, step), str(task.weight.ty.dtype), "packed")
        return packed, body(task, packed)
    if task.layout is Weight.TURNED:
        panels = turned_panels(task, width, step)
        return None, with_turned(task, panels, width, step, body(task, panels))
    return None, body(task, None)


def _time(task: SymbolicProduct, measure: Measure) -> _Time:
    """Function that measures kernels of a task."""

    def module(trial: _Trial) -> tvm.IRModule:
        member = trial.member

        def kernel(own: SymbolicProduct, panels: Any) -> Any:
            return product_kernel(own, member, panels)

        packed, body = _with_panels(task, member.width, member.step, kernel)
        return with_sizes(parameters(task, packed), with_prepared(task, body), trial.values)

    return lambda trials: measure([module(trial) for trial in trials])


def parameters(task: SymbolicProduct, panels: Any) -> list[Any]:
    """Parameters of the task's function, with packed panels in place of the weight."""
    packed = task.parameter if task.layout is Weight.PACKED else None
    return [panels if index == packed else param for index, param in enumerate(task.parameters)]


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
        parts = task.parts
        self.key = simple(next((part for part in parts if fixed(part) is None), number(1)))
        self.range, self.rows, self.columns = (ends(one) for one in (self.key, *parts[:2]))
        self.expected = expected_values(self.key, counts, ends)
        variables = sorted(variables_of([number(part) for part in parts]), key=lambda var: var.name)

        def values_at(place: float, variables: Sequence[Any]) -> dict[Any, int]:
            return {var: size_at(*ends(var), place) for var in variables}

        symbols = [*variables, *(var for var in task.symbols if var not in variables)]
        self.measured = [values_at(place, symbols) for place in MEASURED]
        curve = [
            [fixed(with_values(number(part), values)) for part in (self.key, *parts)]
            for values in (values_at(place, variables) for place in np.linspace(0, 1, _POINTS))
        ]
        self._curve = np.array(curve, dtype=float)
        self._same = [bool(tvm_ffi.structural_equal(self.key, simple(part))) for part in parts]

    def at(self, keys: Sequence[int]) -> ProductSizes:
        """Extents where the first symbolic one has these values, and all others have grown as far."""
        known = self._curve[:, 0]
        return ProductSizes(
            *(
                np.asarray(keys, np.int64)
                if same
                else np.maximum(1, np.rint(np.interp(keys, known, self._curve[:, at])).astype(np.int64))
                for at, same in enumerate(self._same, start=1)
            )
        )

    @property
    def columns_follow(self) -> bool:
        """Whether the number of columns is the key."""
        return self._same[1]


def _family(
    sizes: _Sizes, widths: Sequence[int], below: int | None, machine: Machine, time: _Time | None
) -> tuple[Family[KernelParameters], list[MeasuredKernel]]:
    """The family for panels of the best one of these widths, and measured kernels.

    It is for fewer columns than panels of width `below` are for. `time` measures kernels that correct the
    predictions.
    """
    low, high = sizes.range
    if sizes.columns_follow:
        low, high = max(low, widths[0]), high if below is None else min(high, below - 1)
    candidates = [member for width in widths for member in sorted(_members(sizes, width, machine))]
    most = MOST_MEMBERS if below is None else _NARROW
    rated = sampled_sizes(low, high, sizes.expected)
    measured = [] if time is None else _measured(candidates, sizes, machine, time)
    correction = Correction(measured)
    factors = np.array([correction.factors(member, rated) for member in candidates])
    times = _predicted(candidates, rated, sizes, machine) * factors
    families = []
    for width in widths:
        own = [row for row, one in enumerate(candidates) if one.width == width]
        families.append(choose([candidates[row] for row in own], rated, times[own], most, sizes.expected))
    return cheapest(families, candidates, rated, times, sizes.expected), measured


def _predicted(
    candidates: Sequence[KernelParameters], keys: Sequence[int], sizes: _Sizes, machine: Machine
) -> NDArray[np.float64]:
    """Predicted cycles [candidates, keys]; infinite where a kernel is not right."""
    extents = sizes.at(keys)
    narrow = fixed(sizes.task.columns) is None and sizes.columns_follow

    def row(member: KernelParameters) -> NDArray[np.float64]:
        few = extents.rows < member.least_rows
        if narrow:
            few |= extents.columns < member.columns
        return np.where(few, np.inf, cycles_at(member, extents, machine))

    return np.array([row(member) for member in candidates])


def _members(sizes: _Sizes, width: int, machine: Machine) -> Iterator[KernelParameters]:
    """Kernels with panels of this width; they multiply in pairs if the target can."""
    task = sizes.task
    pairs = machine.pairs_of(task.types, width) if task.reduced and task.plain else ""
    rows = min(MOST_ROWS, sizes.rows[1])
    return members(width, rows, _most_panels(sizes, width), machine, pairs)


def _most_panels(sizes: _Sizes, width: int) -> int:
    """Panels of a register tile at most, so that no kernel needs more columns than there are."""
    if sizes.columns_follow:
        return MOST_PANELS
    known = fixed(sizes.task.columns)
    return math.ceil(known / width) if known else max(1, sizes.columns[0] // width)


def _measured(
    candidates: Sequence[KernelParameters], sizes: _Sizes, machine: Machine, time: _Time
) -> list[MeasuredKernel]:
    """Times of kernels: those predicted fastest at each size, and of each register tile one order."""
    keys = [fixed(with_values(sizes.key, values)) or 0 for values in sizes.measured]
    predicted = _predicted(candidates, keys, sizes, machine)
    found: dict[tuple[int, ...], _Trial] = {}
    for key, values, times in zip(keys, sizes.measured, predicted.T, strict=True):
        tiles: dict[tuple[int, ...], _Trial] = {}
        for at in np.argsort(times, kind="stable"):
            member = candidates[at]
            if len(tiles) < _TRIED and np.isfinite(times[at]):
                tile = (key, member.rows, member.panels, member.width)
                tiles.setdefault(tile, _Trial(member, key, values, float(times[at])))
        found |= tiles
    trials = list(found.values())
    return [
        MeasuredKernel(trial.member, trial.size, trial.cycles, seconds)
        for trial, seconds in zip(trials, time(trials), strict=True)
        if seconds is not None
    ]


def _dispatched(task: SymbolicProduct, panels: Any, key: Any, family: Family[KernelParameters]) -> Any:
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
