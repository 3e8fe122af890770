"""Weights in panels of columns, which all kernels read; the last panel overlaps the one before it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import tirx
from tvm.ir.expr import TensorLoad

from .elementwise_kernel import elementwise_loops
from .nodes import (
    allocated,
    ceildiv,
    fixed,
    loop,
    number,
    parallel,
    product,
    sequence,
    simple,
    split_index,
    store,
    tile_start,
    values_of,
    with_values,
    workspace,
)
from .symbolic_product import SymbolicProduct


def panels_of(weight: NDArray[Any], task: SymbolicProduct, width: int, step: int = 1) -> NDArray[Any]:
    """A constant weight in panels: [panel, axes of the reduction, width * step].

    The innermost axis of the reduction is in words of `step` terms, filled up with zeros. Each of the `width`
    columns has the terms of its word next to each other.
    """
    ordered = in_order(weight, task)
    if step == 1:
        return in_panels(ordered, width)
    columns, depths = ordered.shape[0], [fixed(extent) or 0 for extent in task.depths(step)]
    whole = ordered.reshape([columns, *depths[:-1], -1])
    lacking = -whole.shape[-1] % step
    filled = np.pad(whole, [(0, 0)] * len(depths) + [(0, lacking)]) if lacking else whole
    words = in_panels(filled.reshape([columns, *depths, step]), width)
    return np.ascontiguousarray(np.moveaxis(words, -2, -1)).reshape(packed_shape(task, width, step))


def in_order(weight: NDArray[Any], task: SymbolicProduct) -> NDArray[Any]:
    """A constant weight as [columns, axes of the reduction]."""
    places = _places(task)
    axes = [places[var] for var in (task.column.var, *(axis.var for axis in task.reduced))]
    dropped = tuple(axis for axis in range(weight.ndim) if axis not in axes)
    return np.transpose(weight, (*dropped, *axes)).reshape([weight.shape[axis] for axis in axes])


def in_panels(weight: NDArray[Any], width: int) -> NDArray[Any]:
    """[columns, ...] in panels: [panel, ..., width]."""
    columns = weight.shape[0]
    starts = np.minimum(np.arange(-(-columns // width)) * width, columns - width)
    chosen = weight[starts[:, None] + np.arange(width)]
    return np.ascontiguousarray(np.moveaxis(chosen, 1, -1))


def packed_shape(task: SymbolicProduct, width: int, step: int = 1) -> list[int]:
    """Shape of `panels_of`."""
    depths = [fixed(extent) or 0 for extent in task.depths(step)]
    return [-(-(fixed(task.columns) or 0) // width), *depths, width * step]


def _places(task: SymbolicProduct) -> dict[Any, int]:
    units = {axis.var: 0 for axis in task.unit}
    indices = [simple(with_values(at, units)) for at in task.weight.indices]
    return {at: place for place, at in enumerate(indices) if isinstance(at, tirx.Var)}


def with_prepared(task: SymbolicProduct, body: Any) -> Any:
    """A statement after those that store what the product reads, such as a padded image."""
    arrays = [block.writes[0].source for block in task.prepared]
    stored = [elementwise_loops(block, task.parameters) for block in task.prepared]
    return allocated(arrays, sequence(*stored, body))


def turned_panels(task: SymbolicProduct, width: int, step: int = 1) -> Any:
    """Array for panels of a weight that each call brings into panels: [batch, as of `panels_of`]."""
    shape = [task.batch_count, ceildiv(task.columns, width), *task.depths(step), width * step]
    return workspace(shape, str(task.weight.ty.dtype), "panels")


def with_turned(task: SymbolicProduct, panels: Any, width: int, step: int, body: Any) -> Any:
    """A statement after the one that fills `turned_panels`."""
    across = ceildiv(task.columns, width)
    weight = weight_load(task)
    *outer, last = [axis.dom.extent for axis in task.reduced] or [1]
    whole, rest = simple(number(last) // step), simple(number(last) % step)

    def panel(at: Any) -> Any:
        batch, panel = at // across, at % across
        start = tile_start(panel, width, task.columns)
        batches = values_of(task.batch, split_index(batch, [axis.dom.extent for axis in task.batch]))

        def words(line: Any) -> Any:
            before = split_index(line, outer)

            def element(word: Any, terms: int, lane: Any, term: int) -> Any:
                reduced = [*before, word * step + term][: len(task.reduced)]
                values = {**batches, **values_of(task.reduced, reduced), task.column.var: start + lane}
                value = with_values(weight, values) if term < terms else tirx.const(0, str(panels.dtype))
                return store(panels, value, [batch, panel, *before, word, lane * step + term])

            def lanes(word: Any, terms: int) -> Any:
                def lane(at: Any) -> Any:
                    return sequence(*(element(word, terms, at, term) for term in range(step)))

                return loop("lane", width, lane)

            return sequence(
                loop("word", whole, lambda word: lanes(word, step)),
                None if fixed(rest) == 0 else loop("rest", rest, lambda _: lanes(whole, 1)),
            )

        return loop("depth", product(outer), words)

    return allocated([panels], sequence(parallel("panel", product([task.batch_count, across]), panel), body))


def weight_load(task: SymbolicProduct) -> TensorLoad:
    units = {axis.var: 0 for axis in task.unit}
    return tirx.BufferLoad(task.weight.source, [simple(with_values(at, units)) for at in task.weight.indices])
