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


def panels_of(weight: NDArray[Any], task: SymbolicProduct, width: int) -> NDArray[Any]:
    """A constant weight in panels: [panel, axes of the reduction, width]."""
    return in_panels(in_order(weight, task), width)


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


def packed_shape(task: SymbolicProduct, width: int) -> list[int]:
    """Shape of `panels_of`."""
    depths = [fixed(axis.dom.extent) or 0 for axis in task.reduced]
    return [-(-(fixed(task.columns) or 0) // width), *depths, width]


def _places(task: SymbolicProduct) -> dict[Any, int]:
    units = {axis.var: 0 for axis in task.unit}
    indices = [simple(with_values(at, units)) for at in task.weight.indices]
    return {at: place for place, at in enumerate(indices) if isinstance(at, tirx.Var)}


def with_prepared(task: SymbolicProduct, body: Any) -> Any:
    """A statement after those that store what the product reads, such as a padded image."""
    arrays = [block.writes[0].source for block in task.prepared]
    stored = [elementwise_loops(block, task.parameters) for block in task.prepared]
    return allocated(arrays, sequence(*stored, body))


def turned_panels(task: SymbolicProduct, width: int) -> Any:
    """Array for panels of a weight that each call brings into panels."""
    depths = [axis.dom.extent for axis in task.reduced]
    shape = [task.batch_count, ceildiv(task.columns, width), *depths, width]
    return workspace(shape, str(task.weight.ty.dtype), "panels")


def with_turned(task: SymbolicProduct, panels: Any, width: int, body: Any) -> Any:
    """A statement after the one that fills `turned_panels`."""
    depths = [axis.dom.extent for axis in task.reduced]
    across = ceildiv(task.columns, width)
    weight = weight_load(task)

    def panel(at: Any) -> Any:
        batch, panel = at // across, at % across
        start = tile_start(panel, width, task.columns)
        batches = values_of(task.batch, split_index(batch, [axis.dom.extent for axis in task.batch]))

        def element(depth: Any, lane: Any) -> Any:
            reduced = split_index(depth, depths)
            values = {**batches, **values_of(task.reduced, reduced), task.column.var: start + lane}
            return store(panels, with_values(weight, values), [batch, panel, *reduced, lane])

        return loop(
            "depth", product(depths), lambda depth: loop("lane", width, lambda lane: element(depth, lane))
        )

    return allocated([panels], sequence(parallel("panel", product([task.batch_count, across]), panel), body))


def weight_load(task: SymbolicProduct) -> TensorLoad:
    units = {axis.var: 0 for axis in task.unit}
    return tirx.BufferLoad(task.weight.source, [simple(with_values(at, units)) for at in task.weight.indices])
