"""Reading of a task of symbolic extents as a product: of matrices, or of windows of images and a filter."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import tvm
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.s_tir.schedule import Schedule, ScheduleError
from tvm.s_tir.stmt import SBlock
from tvm.tirx import IterVar, PrimFunc
from tvm.tirx.buffer import is_buffer_var

from ..contraction import blocks_of, is_elementwise, is_product, only_copies, reduces, variables_of
from ..stages import inline_blocks
from .nodes import fixed, loads_of, product, simple, with_values


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
    """C[batch, rows, column] = sum of data[batch, rows, reduced] * weight[batch, reduced, column]."""

    prepared: tuple[SBlock, ...]
    """Element-wise blocks whose values are stored first, such as a padded image."""
    anchor: SBlock
    epilogue: SBlock | None
    """Block that writes the output from the sums; None if the product writes it."""
    batch: tuple[IterVar, ...]
    rows: tuple[IterVar, ...]
    column: IterVar
    reduced: tuple[IterVar, ...]
    """Axes of the reduction of more than one element, the innermost last."""
    unit: tuple[IterVar, ...]
    """Axes of the reduction of one element."""
    term: Any
    """The product that is added to a sum: of loads of data and weight."""
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
    def batch_count(self) -> Any:
        return product([axis.dom.extent for axis in self.batch])

    @property
    def depth(self) -> Any:
        """Terms of each sum."""
        return product([axis.dom.extent for axis in self.reduced])

    @property
    def symbols(self) -> list[Any]:
        """Variables that are extents of parameters."""
        shapes = [param.shape for param in self.parameters if is_buffer_var(param)]
        return list({extent for shape in shapes for extent in shape if isinstance(extent, tirx.Var)})

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
    blocks = blocks_of(tvm.IRModule({"main": func}))
    anchors = [block for block in blocks if reduces(block)]
    names = {block.name_hint for block in blocks}
    if len(anchors) != 1 or len(names) != len(blocks) or not _multiplies(anchors[0]):
        return None
    (anchor,) = anchors
    others = [block for block in blocks if block is not anchor]
    if not all(map(is_elementwise, others)):
        return None
    operands = {region.source for region in anchor.reads}
    stored = {
        block.name_hint for block in others if block.writes[0].source in operands and not only_copies(block)
    }
    last = blocks[-1]
    kept = {anchor.name_hint, last.name_hint} | stored
    sch = Schedule(tvm.IRModule({"main": func}), debug_mask=0, error_render_level="none")
    try:
        inline_blocks(sch, [block.name_hint for block in others if block.name_hint not in kept])
    except ScheduleError:  # such as a block that is read in two places of another shape
        return None
    inlined = {block.name_hint: block for block in blocks_of(sch.mod)}
    anchor, last = inlined[anchor.name_hint], inlined[last.name_hint]
    prepared = tuple(block for name, block in inlined.items() if name in stored)
    epilogue = None if last.name_hint == anchor.name_hint else last
    if epilogue is not None and not _follows(epilogue, anchor):
        return None
    return _with_axes(sch.mod["main"], anchor, prepared, epilogue, constants)


def _multiplies(block: SBlock) -> bool:
    return block.init is not None and len(block.reads) == 2 and is_product(block)


def _follows(epilogue: SBlock, anchor: SBlock) -> bool:
    """Whether the block computes each element of the output from the sum at the same place."""
    sums, variables = anchor.writes[0].source, [axis.var for axis in epilogue.iter_vars]
    written = [at.min for at in epilogue.writes[0].region]
    reads = [load for load in loads_of(epilogue.body.value) if load.source.same_as(sums)]
    places = [written, *(load.indices for load in reads)]
    return bool(reads) and all(
        len(place) == len(variables) == len(sums.shape)
        and all(
            fixed(extent) == 1 or at.same_as(var)
            for at, var, extent in zip(place, variables, sums.shape, strict=True)
        )
        for place in places
    )


def _with_axes(
    func: PrimFunc,
    anchor: SBlock,
    prepared: tuple[SBlock, ...],
    epilogue: SBlock | None,
    constants: frozenset[int],
) -> SymbolicProduct | None:
    spatial = [axis for axis in anchor.iter_vars if axis.iter_type != IterVar.CommReduce]
    reduced = [axis for axis in anchor.iter_vars if axis.iter_type == IterVar.CommReduce]
    written = [at.min for at in anchor.writes[0].region]
    if not spatial or len(written) != len(spatial):
        return None
    if not all(
        fixed(axis.dom.extent) == 1 or at.same_as(axis.var) for axis, at in zip(spatial, written, strict=True)
    ):
        return None
    unit = tuple(axis for axis in reduced if fixed(axis.dom.extent) == 1)
    term = _term(anchor)
    loads = loads_of(term)
    column = spatial[-1]
    for data, weight in (loads, loads[::-1]):
        used = [variables_of(load.indices) for load in (data, weight)]
        if column.var not in used[1] or column.var in used[0]:
            continue
        batch = tuple(axis for axis in spatial[:-1] if axis.var in used[1])
        rows = tuple(axis for axis in spatial[:-1] if axis.var not in used[1])
        parameter = _parameter(func, weight, constants) if not batch else None
        return SymbolicProduct(
            prepared=prepared,
            anchor=anchor,
            epilogue=epilogue,
            batch=batch,
            rows=rows,
            column=column,
            reduced=tuple(axis for axis in reduced if axis not in unit),
            unit=unit,
            term=term,
            weight=weight,
            layout=_layout(weight, column, unit, parameter),
            parameters=tuple(func.params),
            parameter=parameter,
        )
    return None


def _term(anchor: SBlock) -> Any:
    """The product that the block adds to the sum."""
    value, sums = anchor.body.value, anchor.writes[0].source
    own = isinstance(value.a, TensorLoad) and value.a.source.same_as(sums)
    return value.b if own else value.a


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
