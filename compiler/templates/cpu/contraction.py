"""Reading of a task as a contraction: a product of matrices, or of the windows of an image and a filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.s_tir.analysis import find_anchor_sblock
from tvm.s_tir.stmt import SBlock
from tvm.tirx import IterVar

from ...operators.shared.tir import extents, linear
from ...tvm_compat import IF_THEN_ELSE, layout_free
from .template import words_of


@dataclass(frozen=True)
class Axis:
    """One loop of the contraction."""

    position: int
    """Place among the loops of the block."""
    extent: int
    stride: int = 1
    """Elements of the data's axis from one iteration to the next."""


@dataclass(frozen=True)
class Contraction:
    """C[batch, rows, column] = sum of A[batch, window of rows, inner] * W[batch, outer, inner, column].

    A convolution with channels last has the image as its rows, the window as `outer`, and the input channels
    as `inner`.
    """

    block: str
    """Name of the block that reduces."""
    types: tuple[str, str, str]
    """Data types of data, weight and sums."""
    data: int
    """Index of the data among the arrays that the block reads."""
    weight: int
    """Index of the weight among the arrays that the block reads."""
    batch: tuple[Axis, ...]
    """Axes that data and weight share."""
    rows: tuple[Axis, ...]
    """Axes of the data alone, the innermost last."""
    column: Axis
    """Axis of the weight alone; consecutive in the output."""
    outer: tuple[Axis, ...]
    """Axes of the reduction other than `inner`."""
    inner: Axis
    """Axis of the reduction that is consecutive in the data."""
    weight_column: int
    """Axis of the weight that the column indexes."""
    weight_inner: int
    """Axis of the weight that `inner` indexes."""
    weight_axes: int
    """Number of axes of the weight."""
    window: Axis | None
    """Axis of `outer` that `inner` continues in the data: steps to the right in an image; None for none."""
    weight_window: int | None
    """Axis of the weight that `window` indexes."""
    constant_weight: bool
    """Whether a schedule may choose the layout of the weight ahead of time."""
    plain: bool
    """Whether each index of data and weight is a loop: a product of matrices, not of windows."""
    inlined: tuple[str, ...]
    """Blocks whose values are computed at their readers, in order."""
    prepared: tuple[str, ...]
    """Blocks whose values are stored before the contraction reads them, such as a padded image."""
    epilogue: str | None
    """Last block, which writes the output; None if the contraction writes it."""
    channels: int = 0
    """Extent of `inner` without `window`, where these two are one axis, else 0; see `in_tiles`."""

    @cached_property
    def row_count(self) -> int:
        """Product of all rows."""
        return prod(axis.extent for axis in self.rows)

    @cached_property
    def batch_count(self) -> int:
        """Product of all batches."""
        return prod(axis.extent for axis in self.batch)

    @property
    def fills_rows(self) -> bool:
        """Whether a schedule can fill the rows up with zeros."""
        return self.plain and not self.prepared

    @property
    def fills_columns(self) -> bool:
        """Whether a schedule can fill columns and depth up with zeros; constant weights keep their shape."""
        return self.fills_rows and not self.constant_weight

    @cached_property
    def depth(self) -> int:
        """Terms of each sum."""
        return self.inner.extent * prod(axis.extent for axis in self.outer)

    def in_tiles(self, step: int) -> Contraction:
        """The contraction as tiles of AMX multiply it, `step` elements a word.

        Few channels fill a part of each tile. Where more of it is filled by several pixels in a row, `window`
        and `inner` are one axis, which is `inner` then.
        """
        window, channels = self.window, self.inner.extent
        if window is None or window.extent * channels % step or channels % step:
            return self
        words = words_of(window.extent * channels, step)
        if words <= words_of(channels, step) or words * step % channels:
            return self

        def moved(axis: Axis) -> Axis:
            return replace(axis, position=axis.position - (axis.position > window.position))

        return replace(
            self,
            batch=tuple(map(moved, self.batch)),
            rows=tuple(map(moved, self.rows)),
            column=moved(self.column),
            outer=tuple(moved(axis) for axis in self.outer if axis is not window),
            inner=replace(moved(self.inner), extent=window.extent * self.inner.extent),
            channels=channels,
        )


def read_contraction(mod: tvm.IRModule) -> Contraction | None:
    """The contraction that `main` computes; None where templates do not apply.

    They apply if one block reduces a product of two operands, its loops are those of `Contraction`, and
    all other blocks are element-wise.
    """
    anchor = product_of(mod)
    if anchor is None:
        return None
    roles = roles_of(blocks_of(mod), anchor)
    return None if roles is None else contraction_of(mod, anchor, roles)


def contraction_of(mod: tvm.IRModule, anchor: SBlock, roles: Mapping[str, Any]) -> Contraction | None:
    """The contraction of one block, whose neighbours have these roles; None where its axes do not fit."""
    func = mod["main"]
    constant = {func.params[index] for index in layout_free(func)}
    sources, sums = [region.source for region in anchor.reads], anchor.writes[0].source
    for data, weight in ((0, 1), (1, 0)):
        axes = _axes(anchor, data, weight)
        if axes is not None:
            return Contraction(
                block=anchor.name_hint,
                types=(str(sources[data].dtype), str(sources[weight].dtype), str(sums.dtype)),
                data=data,
                weight=weight,
                constant_weight=sources[weight] in constant,
                **roles,
                **axes,
            )
    return None


def blocks_of(mod: tvm.IRModule) -> list[SBlock]:
    """All blocks but the root, in order."""
    found: list[SBlock] = []
    tvm_ffi.structural_walk(mod["main"].body, (SBlock, found.append))
    return [block for block in found if block.iter_vars]


def product_of(mod: tvm.IRModule) -> SBlock | None:
    """The block with most operations, if it adds up products of two operands; else None."""
    anchor = find_anchor_sblock(mod)
    if anchor is None or anchor.init is None or len(anchor.reads) != 2 or not is_product(anchor):
        return None
    return anchor


def is_product(anchor: SBlock) -> bool:
    """Whether the block adds the product of its two operands, each perhaps converted, to the sum."""
    value = getattr(anchor.body, "value", None)
    if not isinstance(value, tirx.Add) or getattr(anchor.init, "value", None) is None:
        return False
    product = value.b if isinstance(value.b, tirx.Mul) else value.a
    if not isinstance(product, tirx.Mul) or getattr(anchor.init.value, "value", None) != 0:
        return False
    operands = [side.value if isinstance(side, tirx.Cast) else side for side in (product.a, product.b)]
    return all(isinstance(operand, TensorLoad) for operand in operands)


def roles_of(blocks: Sequence[SBlock], anchor: SBlock) -> dict[str, Any] | None:
    """Roles of blocks other than the anchor, by field of `Contraction`; None if one is not element-wise."""
    others = [block for block in blocks if block.name_hint != anchor.name_hint]
    if len(others) != len(blocks) - 1 or len({block.name_hint for block in others}) != len(others):
        return None
    if not all(map(is_elementwise, others)):
        return None
    operands = {region.source for region in anchor.reads}
    prepared = tuple(
        block.name_hint for block in others if block.writes[0].source in operands and not only_copies(block)
    )
    last = blocks[-1]
    epilogue = None if last.name_hint == anchor.name_hint else last.name_hint
    sums = anchor.writes[0].source
    if epilogue is not None and list(extents(last.writes[0].source)) != list(extents(sums)):
        return None  # such as a reshape, whose rows are not the contraction's
    inlined = tuple(b.name_hint for b in others if b.name_hint not in prepared and b.name_hint != epilogue)
    return {"inlined": inlined, "prepared": prepared, "epilogue": epilogue}


def only_copies(block: SBlock) -> bool:
    """Whether the block stores its input unchanged, as a padding of nothing does."""
    value, written = getattr(block.body, "value", None), block.writes[0].region
    return isinstance(value, TensorLoad) and all(
        iterator.var.same_as(stored.min) and iterator.var.same_as(read)
        for iterator, stored, read in zip_longest(block.iter_vars, written, value.indices)
    )


def only_pads(block: SBlock) -> bool:
    """Whether the block surrounds its input with a constant."""
    value = getattr(block.body, "value", None)
    return getattr(getattr(value, "op", None), "name", "") == IF_THEN_ELSE


def is_elementwise(block: SBlock) -> bool:
    """Whether the block computes each element of one array on its own."""
    return block.init is None and len(block.writes) == 1 and not reduces(block)


def writes_output(block: SBlock, func: tirx.PrimFunc) -> bool:
    """Whether the block writes a parameter of the function."""
    written = block.writes[0].source
    return any(written.same_as(param) for param in func.params)


def reduces(block: SBlock) -> bool:
    """Whether the block has a loop that reduces."""
    return any(iterator.iter_type == IterVar.CommReduce for iterator in block.iter_vars)


def _axes(anchor: SBlock, data: int, weight: int) -> dict[str, Any] | None:
    """Roles of the block's loops with these operands; None if they do not fit."""
    positions = {iterator.var: position for position, iterator in enumerate(anchor.iter_vars)}
    size = [int(iterator.dom.extent) for iterator in anchor.iter_vars]
    indices = [[at.min for at in anchor.reads[operand].region] for operand in (data, weight)]
    used = [variables_of(of) for of in indices]
    spatial = [i for i in anchor.iter_vars if i.iter_type != IterVar.CommReduce]
    if not _writes_in_loop_order(anchor, spatial):
        return None
    batch, rows, columns = [], [], []
    for iterator in spatial:
        position, var = positions[iterator.var], iterator.var
        in_data, in_weight = (var in of for of in used)
        if in_data and in_weight:
            batch.append(Axis(position, size[position]))
        elif in_weight:
            columns.append(Axis(position, size[position]))
        else:
            stride = next((linear(at, iterator)[0] for at in indices[0] if var in variables_of([at])), 1)
            rows.append(Axis(position, size[position], stride))
    reduced = [i for i in anchor.iter_vars if i.iter_type == IterVar.CommReduce]
    inner = next((i for i in reduced if i.var.same_as(indices[0][-1])), None)
    if len(columns) != 1 or columns[0].position != len(spatial) - 1 or inner is None:
        return None
    column = next(i for i in spatial if positions[i.var] == columns[0].position)
    places = [_place(indices[1], iterator.var) for iterator in (column, inner)]
    if (
        None in places
        or not rows
        or any(i.var not in used[1] and size[positions[i.var]] > 1 for i in reduced)
    ):
        return None
    steps = [iterator for iterator in reduced if iterator is not inner]
    window = next((step for step in steps if _is_window(anchor, data, step, inner)), None)
    outer = tuple(Axis(positions[step.var], size[positions[step.var]]) for step in steps)
    return {
        "batch": tuple(batch),
        "rows": tuple(rows),
        "column": columns[0],
        "outer": outer,
        "window": None if window is None else outer[steps.index(window)],
        "weight_window": None if window is None else _place(indices[1], window.var),
        "inner": Axis(positions[inner.var], size[positions[inner.var]]),
        "weight_column": places[0],
        "weight_inner": places[1],
        "weight_axes": len(indices[1]),
        "plain": all(isinstance(index, tirx.Var) for of in indices for index in of),
    }


def _is_window(anchor: SBlock, data: int, axis: IterVar, inner: IterVar) -> bool:
    """Whether a step of a reduction goes on in the data where all iterations of `inner` end."""
    region = anchor.reads[data]
    if len(region.region) < 2 or int(extents(region.source)[-1]) != int(inner.dom.extent):
        return False
    before = region.region[-2].min
    return axis.var in variables_of([before]) and linear(before, axis) == (1, 0)


def _writes_in_loop_order(anchor: SBlock, spatial: Sequence[IterVar]) -> bool:
    """Whether the block writes one element for each of its loops, in their order."""
    written = [at.min for at in anchor.writes[0].region]
    return len(written) == len(spatial) and all(
        int(i.dom.extent) == 1 or i.var.same_as(at) for i, at in zip(spatial, written, strict=True)
    )


def variables_of(indices: Sequence[Any]) -> set[Any]:
    """Variables in these indices."""
    found: set[Any] = set()
    for index in indices:
        tvm_ffi.structural_walk(index, (tirx.Var, found.add))
    return found


def _place(indices: Sequence[Any], var: tirx.Var) -> int | None:
    """Index that is the variable alone, if no other index has the variable."""
    holding = [number for number, index in enumerate(indices) if var in variables_of([index])]
    alone = len(holding) == 1 and var.same_as(indices[holding[0]])
    return holding[0] if alone else None
