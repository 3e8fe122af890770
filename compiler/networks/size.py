"""Bytes of a network: its weights, and the tensors that a run keeps at once."""

from __future__ import annotations

import math

import tvm
from tvm import relax

from ..tvm_compat import relax_bindings
from .importing import onnx_import
from .loading import Network


def weight_bytes(network: Network) -> int:
    """Bytes of the weights in the form that the user gave; tensors that share memory count once."""
    if network.module is not None:
        tensors = [*network.module.parameters(), *network.module.buffers()]
        return sum({tensor.data_ptr(): tensor.nbytes for tensor in tensors}.values())
    assert network.onnx_path is not None
    return onnx_import.file_bytes(network.onnx_path)


def activation_bytes(mod: tvm.IRModule) -> int:
    """Most bytes of intermediate results that `main` of a lowered module needs at one time.

    A result is needed from the call that computes it to the last call that reads it. Tensors whose extents
    are not fixed do not count.
    """
    bindings = list(relax_bindings(mod["main"]))
    last_use: dict[relax.Var, int] = {}
    for number, (_, value) in enumerate(bindings):
        for used in _variables(value):
            last_use[used] = number
    for used in _variables(mod["main"].body.body):
        last_use[used] = len(bindings)
    ends: dict[int, int] = {}
    now, most = sum(_bytes(param) for param in mod["main"].params), 0
    for number, (var, value) in enumerate(bindings):
        if isinstance(value, relax.Call):  # others are names for results that count already
            size = _bytes(var)
            now += size
            end = last_use.get(var, number)
            ends[end] = ends.get(end, 0) + size
        most = max(most, now)
        now -= ends.pop(number, 0)
    return most


def _variables(expr: relax.Expr) -> list[relax.Var]:
    found: list[relax.Var] = []

    def visit(node: relax.Expr) -> None:
        if isinstance(node, relax.Var):
            found.append(node)

    relax.analysis.post_order_visit(expr, visit)
    return found


def _bytes(var: relax.Var) -> int:
    return _bytes_of_type(var.ty)


def _bytes_of_type(kind: object) -> int:
    if isinstance(kind, relax.TupleType):
        return sum(map(_bytes_of_type, kind.fields))
    if not isinstance(kind, relax.TensorType) or kind.shape is None:
        return 0
    try:
        elements = math.prod(int(extent) for extent in kind.shape.values)
    except (AttributeError, TypeError):  # a symbolic extent
        return 0
    return elements * ((tvm.DataType(str(kind.dtype)).bits + 7) // 8)
