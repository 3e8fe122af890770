"""Reading of a task of symbolic extents as a product: of matrices, or of windows of images and a filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.s_tir.stmt import SBlock
from tvm.sym import detect_linear_equation
from tvm.tirx import IterVar, PrimFunc
from tvm.tirx.buffer import is_buffer_var

from ..contraction import is_product, variables_of
from .nodes import ceildiv, fixed, flat_index, loads_of, number, product, simple, with_loads, with_values
from .task_stages import TaskStages, read_stages
from .windows.window_axes import WindowAxis, padding_of, window_axis

LEAST_PIXELS = 4
"""Pixels of a row of an image from which on a register tile has pixels of one row alone."""


class Weight(Enum):
    """Place from which a kernel reads vectors of the right operand."""

    PACKED = "packed"
    """In panels of columns that were made from a constant once."""
    DIRECT = "direct"
    """Where the operand is, as its columns are consecutive."""
    TURNED = "turned"
    """In panels that each call makes, in front of the product."""


@dataclass(frozen=True, eq=False)
class SymbolicProduct:
    """C[batch, line, row, column] = sum of data[batch, line, row, reduced] * weight[batch, reduced, column].

    The windows of a convolution are of the rows of an image (`lines`) and of their pixels (`rows`).
    """

    prepared: tuple[SBlock, ...]
    """Element-wise blocks whose values are stored first, such as a padded image."""
    anchor: SBlock
    epilogue: SBlock | None
    """Block that writes the output from the sums; None if the product writes it."""
    batch: tuple[IterVar, ...]
    lines: tuple[IterVar, ...]
    """Axes of an image other than the pixels of a row, which a register tile does not cross; else empty."""
    rows: tuple[IterVar, ...]
    """Further axes of the data alone; with `lines`, the pixels of a row of an image."""
    clipped: tuple[WindowAxis, ...]
    """Axes among `lines` of a padded image, with the taps that may lie in the padding."""
    column: IterVar
    reduced: tuple[IterVar, ...]
    """Axes of the reduction of more than one element, the innermost last."""
    unit: tuple[IterVar, ...]
    """Axes of the reduction of one element."""
    term: Any
    """The product that is added to a sum: of loads of data and weight."""
    data: TensorLoad
    weight: TensorLoad
    layout: Weight
    parameters: tuple[Any, ...]
    """Parameters of the function."""
    parameter: int | None
    """Index of the weight among the parameters of the function, if it is packed."""

    @property
    def columns(self) -> Any:
        return self.column.dom.extent

    @property
    def row_count(self) -> Any:
        return product([axis.dom.extent for axis in self.rows])

    @property
    def line_count(self) -> Any:
        return product([axis.dom.extent for axis in self.lines])

    @property
    def batch_count(self) -> Any:
        return product([axis.dom.extent for axis in self.batch])

    @property
    def depth(self) -> Any:
        """Terms of each sum."""
        return product([axis.dom.extent for axis in self.reduced])

    @property
    def types(self) -> tuple[str, str, str]:
        """Data types of data, weight and sums, as those of an instruction."""
        return str(self.data.ty.dtype), str(self.weight.ty.dtype), self.dtype

    @property
    def plain(self) -> bool:
        """Whether a term is the product of two elements, perhaps converted, and of no computed values."""
        if not isinstance(self.term, tirx.Mul):
            return False
        factors = [one.value if isinstance(one, tirx.Cast) else one for one in (self.term.a, self.term.b)]
        return all(isinstance(one, TensorLoad) for one in factors)

    def depths(self, step: int) -> list[Any]:
        """Extents of the axes of the reduction, at least one, the innermost one in words of `step` terms."""
        *outer, last = [axis.dom.extent for axis in self.reduced] or [1]
        return [*outer, ceildiv(last, step)]

    def in_words(self, step: int) -> SymbolicProduct:
        """The product for kernels that read words of `step` terms of the weight: they need panels."""
        direct = step > 1 and self.layout is Weight.DIRECT
        return replace(self, layout=Weight.TURNED) if direct else self

    @property
    def parts(self) -> tuple[Any, ...]:
        """Extents in the order of `ProductSize`."""
        return self.row_count, self.columns, self.depth, self.batch_count, self.line_count, self.pitch

    @property
    def pitch(self) -> Any:
        """Elements from the data of a row to that of the next one; 0 where the distance changes."""
        place = flat_index(self.data.indices, self.data.source.shape)
        terms = detect_linear_equation(place, [self.rows[-1].var]) if self.rows else []
        return simple(terms[0]) if terms else number(0)

    @property
    def symbols(self) -> list[Any]:
        """Variables in the extents of parameters."""
        shapes = [param.shape for param in self.parameters if is_buffer_var(param)]
        extents = [number(extent) for shape in shapes for extent in shape]
        return sorted(variables_of(extents), key=lambda var: var.name)

    @property
    def sums(self) -> Any:
        """Array of the sums."""
        return self.anchor.writes[0].source

    @property
    def dtype(self) -> str:
        return str(self.sums.dtype)


def read_symbolic_product(func: PrimFunc, constants: frozenset[int]) -> SymbolicProduct | None:
    """The product that a function computes; None for any other function.

    `constants` are the indices of parameters whose layout may be chosen ahead of time.
    """
    stages = read_stages(func, _multiplies)
    return None if stages is None else _with_axes(stages, constants)


def _multiplies(block: SBlock) -> bool:
    return block.init is not None and len(block.reads) == 2 and is_product(block)


def _with_axes(stages: TaskStages, constants: frozenset[int]) -> SymbolicProduct | None:
    anchor, func = stages.anchor, stages.func
    spatial = [axis for axis in anchor.iter_vars if axis.iter_type != IterVar.CommReduce]
    reduced = [axis for axis in anchor.iter_vars if axis.iter_type == IterVar.CommReduce]
    unit = tuple(axis for axis in reduced if fixed(axis.dom.extent) == 1)
    term = _term(anchor)
    if _depends_on(term, anchor):
        return None
    loads = loads_of(term)
    column = spatial[-1]
    for data, weight in (loads, loads[::-1]):
        used = [variables_of(load.indices) for load in (data, weight)]
        if column.var not in used[1] or column.var in used[0]:
            continue
        batch = tuple(axis for axis in spatial[:-1] if axis.var in used[1])
        rows = tuple(axis for axis in spatial[:-1] if axis.var not in used[1])
        parameter = _parameter(func, weight, constants) if not batch else None
        layout = _layout(weight, column, unit, parameter)
        summed = tuple(axis for axis in reduced if axis not in unit)
        image = _image(stages, data, rows, summed, unit) if layout is Weight.PACKED else None
        return SymbolicProduct(
            prepared=stages.prepared,
            anchor=anchor,
            epilogue=stages.epilogue,
            batch=batch,
            lines=() if image is None else rows[:-1],
            rows=rows if image is None else rows[-1:],
            clipped=() if image is None else image,
            column=column,
            reduced=summed,
            unit=unit,
            term=term,
            data=data,
            weight=weight,
            layout=layout,
            parameters=tuple(func.params),
            parameter=parameter,
        )
    return None


def _image(
    stages: TaskStages,
    data: TensorLoad,
    rows: Sequence[IterVar],
    reduced: Sequence[IterVar],
    unit: Sequence[IterVar],
) -> tuple[WindowAxis, ...] | None:
    """Axes with taps in the padding of an image whose rows are long enough for register tiles of their own.

    None if the data is another array, or a plain product reads its pixels in the order of the output.
    """
    pixels = fixed(rows[-1].dom.extent) if rows else 0
    padding = padding_of(stages.prepared, data, stages.anchor.init.value)
    if padding is None or len(rows) < 2 or (pixels is not None and pixels < LEAST_PIXELS):
        return None
    units = {axis.var: 0 for axis in unit}
    *indices, channel = [simple(with_values(at, units)) for at in data.indices]
    taps = [axis for axis in reduced if not channel.same_as(axis.var)]
    if len(indices) != len(rows):
        return None
    axes = [
        window_axis(row, index, taps, *padded)
        for row, index, padded in zip(rows, indices, padding.around, strict=True)
    ]
    known = [axis for axis in axes if axis is not None]
    if len(known) < len(axes) or all(axis.tap is None and axis.stride == 1 for axis in known):
        return None
    return tuple(
        axis
        for axis in known[:-1]
        if axis.padded and axis.tap is not None and not axis.tap_var.same_as(reduced[-1].var)
    )


def _term(anchor: SBlock) -> Any:
    """The product that the block adds to the sum."""
    value, sums = anchor.body.value, anchor.writes[0].source
    own = isinstance(value.a, TensorLoad) and value.a.source.same_as(sums)
    return value.b if own else value.a


def _depends_on(term: Any, anchor: SBlock) -> bool:
    """Whether a term reads the axes outside of its loads, such as for a padding that it computes."""
    rest = with_loads(term, lambda load: tirx.const(0, str(load.ty.dtype)))
    return bool(variables_of([rest]) & {axis.var for axis in anchor.iter_vars})


def _parameter(func: PrimFunc, weight: TensorLoad, constants: frozenset[int]) -> int | None:
    return next((index for index in sorted(constants) if func.params[index].same_as(weight.source)), None)


def _layout(weight: TensorLoad, column: IterVar, unit: tuple[IterVar, ...], parameter: int | None) -> Weight:
    indices = [simple(with_values(at, {axis.var: 0 for axis in unit})) for at in weight.indices]
    variables = [at for at in indices if isinstance(at, tirx.Var)]
    plain = len(variables) == len(set(variables)) and all(
        isinstance(at, tirx.Var) or fixed(at) == 0 for at in indices
    )
    if parameter is not None and plain:
        return Weight.PACKED
    direct = indices[-1].same_as(column.var) and column.var not in variables_of(indices[:-1])
    return Weight.DIRECT if direct else Weight.TURNED
