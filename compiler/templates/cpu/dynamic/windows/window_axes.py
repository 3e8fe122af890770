"""Axes of an image along which each output reads a window of the data, and the padding around the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.s_tir.stmt import SBlock
from tvm.sym import detect_linear_equation
from tvm.tirx import IterVar

from ...contraction import only_pads
from ..nodes import fixed, number, simple


@dataclass(frozen=True, eq=False)
class WindowAxis:
    """One axis of the output, and what its elements read along the axis of the data."""

    axis: IterVar
    tap: IterVar | None
    """Loop over the elements that one output reads; None if that is one element."""
    stride: int
    dilation: int
    before: int
    """Elements of padding before the data."""
    after: int
    """Elements of padding after it."""
    data: Any
    """Extent of the data, without the padding."""

    @property
    def extent(self) -> Any:
        """Extent of the output."""
        return self.axis.dom.extent

    @property
    def taps(self) -> int:
        """Elements that one output reads."""
        return 1 if self.tap is None else fixed(self.tap.dom.extent) or 0

    @property
    def tap_var(self) -> Any:
        """Variable of the tap of an axis that has one."""
        return None if self.tap is None else self.tap.var

    @property
    def padded(self) -> bool:
        return self.before > 0 or self.after > 0

    def inside(self, first: Any) -> tuple[Any, Any]:
        """First tap inside of the data, and number of such taps, of a window that begins at `first`."""
        if not self.padded:
            return number(0), number(self.taps)
        low = tirx.max((number(self.dilation - 1) - first) // self.dilation, 0)
        high = tirx.min((number(self.data) - first + (self.dilation - 1)) // self.dilation, self.taps)
        return simple(low), simple(tirx.max(high - low, 0))

    def first(self, at: Any) -> Any:
        """Element of the data at which the window of an output begins; negative in the padding."""
        return simple(number(at) * self.stride - self.before)


@dataclass(frozen=True, eq=False)
class Padding:
    """Padding of an image, without channels."""

    source: Any
    """Array of the image."""
    around: list[tuple[int, int, Any]]
    """Elements before and after the data, and the data's extent, by axis."""


def padding_of(prepared: Sequence[SBlock], load: TensorLoad, neutral: Any) -> Padding | None:
    """Padding of the loaded array with the value `neutral`; None if it is computed in another way.

    `prepared` are the blocks of `TaskStages`.
    """
    if not prepared:
        return Padding(load.source, [(0, 0, extent) for extent in load.source.shape[:-1]])
    block, *others = prepared
    if others or not load.source.same_as(block.writes[0].source) or not only_pads(block):
        return None
    condition, inside, outside = block.body.value.args
    inside = inside.value if isinstance(inside, tirx.Cast) else inside
    variables = [axis.var for axis in block.iter_vars]
    if not isinstance(inside, TensorLoad) or not _same_number(outside, neutral):
        return None
    if not all(at.same_as(var) for at, var in zip(block.body.indices, variables, strict=True)):
        return None
    around, bounds = [], []
    shapes = zip(inside.indices, variables, inside.source.shape, block.writes[0].source.shape, strict=True)
    for index, var, extent, padded in shapes:
        before = fixed(var - index)
        after = None if before is None else fixed(padded - extent - before)
        if before is None or after is None or before < 0 or after < 0:
            return None
        around.append((before, after, extent))
        bounds += [number(before) <= var] * (before > 0) + [var < number(before) + extent] * (after > 0)
    if around[-1][:2] != (0, 0) or not _same_terms(condition, bounds):
        return None
    return Padding(inside.source, around[:-1])


def _same_number(one: Any, other: Any) -> bool:
    """Whether two expressions are the same constant, perhaps of different data types."""
    first, second = (getattr(node, "value", None) for node in (one, other))
    alike = first is not None and first == second
    return bool(alike or tvm_ffi.structural_equal(one, other))


def _same_terms(condition: Any, bounds: Sequence[Any]) -> bool:
    """Whether a condition consists of these comparisons."""

    def terms(node: Any) -> list[Any]:
        return [*terms(node.a), *terms(node.b)] if isinstance(node, tirx.And) else [simple(node)]

    found, wanted = terms(condition), list(map(simple, bounds))
    return len(found) == len(wanted) and all(
        any(tvm_ffi.structural_equal(one, other) for other in wanted) for one in found
    )


def window_axis(
    axis: IterVar, index: Any, taps: Sequence[IterVar], before: int, after: int, data: Any
) -> WindowAxis | None:
    """An axis whose index of the data is linear in the output's and in at most one tap's, else None."""
    variables = [axis.var, *(tap.var for tap in taps)]
    terms = list(detect_linear_equation(index, variables))
    numbers = [fixed(term) for term in terms]
    if not terms or None in numbers or numbers[-1] != 0:
        return None
    stride, *steps = [value or 0 for value in numbers[:-1]]
    used = [(tap, step) for tap, step in zip(taps, steps, strict=True) if step]
    if len(used) > 1 or stride < 0 or any(step < 0 for _, step in used):
        return None
    if stride == 0 and fixed(axis.dom.extent) != 1:
        return None
    tap, dilation = used[0] if used else (None, 1)
    return WindowAxis(axis, tap, max(stride, 1), dilation, before, after, data)
