"""Negative indices in exported programs, counted from the front: TVM reads outside the tensor for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

_ATEN = torch.ops.aten
_MASKS = {torch.bool, torch.uint8}


def wrap_indices(program: ExportedProgram) -> None:
    """Puts tensors of indices, each in [-extent, extent), into [0, extent) of their axis, in place.

    Folding evaluates the wrapping of indices that depend on no input.
    """
    for node in list(program.graph.nodes):
        if node.op == "call_function" and node.target is _ATEN.index.Tensor:
            data, indices, *rest = node.args
            node.args = (data, _wrapped(program.graph, node, data, indices), *rest)


def _wrapped(graph: fx.Graph, node: fx.Node, data: fx.Node, indices: Sequence[fx.Node | None]) -> list[Any]:
    wrapped: list[Any] = list(indices)
    if any(index is not None and index.meta["val"].dtype in _MASKS for index in indices):
        return wrapped  # a mask covers as many axes as it has
    for axis, index in enumerate(indices):
        if index is not None:
            with graph.inserting_before(node):
                extent = _extent(graph, data, axis)
                wrapped[axis] = graph.call_function(_ATEN.remainder.Scalar, (index, extent))
            wrapped[axis].meta["val"] = index.meta["val"]
    return wrapped


def _extent(graph: fx.Graph, data: fx.Node, axis: int) -> Any:
    """Extent of an axis: a number, or a node that has a symbol as its value."""
    extent = data.meta["val"].shape[axis]
    if isinstance(extent, int):
        return extent
    found = graph.call_function(_ATEN.sym_size.int, (data, axis))
    found.meta["val"] = extent
    return found
