"""Explicit type promotion in exported programs: operands of one operator get one data type.

PyTorch promotes mixed operands inside its operators; TVM's importer refuses some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

_ATEN = torch.ops.aten
_COMPARISONS = {getattr(_ATEN, name).Tensor for name in ("eq", "ne", "lt", "le", "gt", "ge")}
_DIVISIONS = {_ATEN.div.Tensor, _ATEN.div.Tensor_mode, _ATEN.floor_divide.default}
_BINARY = {
    *(getattr(_ATEN, name).Tensor for name in ("add", "sub", "mul", "remainder", "fmod")),
    *(_ATEN.maximum.default, _ATEN.minimum.default, _ATEN.pow.Tensor_Tensor, _ATEN.atan2.default),
    *_DIVISIONS,
}
_SUMS = {
    *(_ATEN.cumsum.default, _ATEN.cumprod.default),
    *(_ATEN.sum.default, _ATEN.sum.dim_IntList, _ATEN.prod.default),
}
"""Operators that add booleans and small integers up in int64."""


def promote_types(program: ExportedProgram) -> None:
    """Casts operands of mixed data types to the type that PyTorch computes in, in place."""
    for node in list(program.graph.nodes):
        if node.op != "call_function":
            continue
        if node.target in _BINARY or node.target in _COMPARISONS:
            _promote(program.graph, node, range(2))
        elif node.target is _ATEN.where.self:
            _promote(program.graph, node, range(1, 3))
        elif node.target in _SUMS:
            node.args = (_cast(program.graph, node, node.args[0], node.meta["val"].dtype), *node.args[1:])
        elif node.target in (_ATEN.cat.default, _ATEN.stack.default):
            operands = list(node.args[0])
            dtype = node.meta["val"].dtype
            cast = [_cast(program.graph, node, operand, dtype) for operand in operands]
            node.args = (cast, *node.args[1:])


def _promote(graph: fx.Graph, node: fx.Node, positions: Sequence[int]) -> None:
    operands = [node.args[position] for position in positions]
    made = node.meta["val"].dtype
    dtype = made if node.target not in _COMPARISONS else reduce(torch.result_type, map(_value, operands))
    arguments: list[Any] = list(node.args)
    for position, operand in zip(positions, operands, strict=True):
        if isinstance(operand, fx.Node):
            arguments[position] = _cast(graph, node, operand, dtype)
        elif node.target in _DIVISIONS and _imported_as(operand) != dtype:
            arguments[position] = _inserted(graph, node, _ATEN.full.default, ([], operand), dtype)
    node.args = tuple(arguments)


def _value(operand: Any) -> Any:
    return operand.meta["val"] if isinstance(operand, fx.Node) else operand


def _imported_as(number: Any) -> torch.dtype:
    """Data type that the importer gives a number that something is divided by."""
    return torch.float32 if isinstance(number, float) else torch.int32


def _cast(graph: fx.Graph, node: fx.Node, operand: Any, dtype: torch.dtype) -> Any:
    value = _value(operand)
    if not isinstance(value, torch.Tensor) or value.dtype == dtype:
        return operand
    return _inserted(graph, node, _ATEN._to_copy.default, (operand,), dtype)


def _inserted(
    graph: fx.Graph, node: fx.Node, target: Any, arguments: tuple[Any, ...], dtype: torch.dtype
) -> fx.Node:
    """A call before `node`, with the shape and data type of its result."""
    with graph.inserting_before(node):
        call = graph.call_function(target, arguments, {"dtype": dtype})
    first = _value(arguments[0])
    scalar = torch.empty((), dtype=dtype, device="meta")
    call.meta["val"] = first.to(dtype) if isinstance(first, torch.Tensor) else scalar
    return call
