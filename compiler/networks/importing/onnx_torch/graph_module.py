"""A PyTorch module that computes an ONNX graph, one operator after another.

Extents stay symbols: `Shape` makes numbers of them, with which the graph computes in `extents`, and which
become extents of a tensor again in `Reshape` or `Expand`.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from .....errors import UserError
from ...known import require_extra
from ..onnx_graph import graph_inputs, opset_of, with_symbols
from ..onnx_rewrites.nodes import Node
from ..onnx_rewrites.rewriting import types_of, with_types
from .call import MOST_NUMBERS, Convert, FixedExtentsError, OperatorCall, Value, as_tensor, known, torch_type
from .elementwise import ELEMENTWISE
from .extents import EXTENTS
from .layers import LAYERS
from .moves import MOVES
from .recurrent import RECURRENT
from .reductions import REDUCTIONS

CONVERTS: Mapping[str, Convert] = {**ELEMENTWISE, **LAYERS, **MOVES, **RECURRENT, **REDUCTIONS}
"""Conversions of tensors by operator."""


class SymbolicOnnxError(UserError, ValueError):
    """An operator of an ONNX file works for fixed extents only."""


class OnnxModule(nn.Module):
    """The graph of a file; its inputs have the names of the file's, as far as Python allows them.

    Raises SymbolicOnnxError, here and in each call, BadOnnxError.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._onnx: Any = require_extra("onnx", "onnx", f"network={path}")
        model = with_symbols(path, CONVERTS.keys())
        self.place = ""
        """Operator and node that are computed, for errors of the tracing around them."""
        self._inputs = [value.name for value in graph_inputs(model)]
        self._outputs = [value.name for value in model.graph.output]
        self._types = types_of(with_types(model), self._onnx)
        weights = {one.name: one for one in model.graph.initializer}
        self._nodes = [
            Node(one, self._types, weights, self._onnx, opset_of(model)) for one in model.graph.node
        ]
        for node in self._nodes:
            if node.op not in CONVERTS or node.proto.domain not in ("", "ai.onnx"):
                raise fixed_extents(_label(node), "foretune does not compute it with symbols")
        self._read = {*self._outputs, *(name for node in self._nodes for name in node.inputs)}
        self._numbers: dict[str, Value] = {}
        self._buffers_of: dict[str, str] = {}
        for place, (name, proto) in enumerate(weights.items()):
            array = np.array(self._onnx.numpy_helper.to_array(proto))
            if array.dtype.kind in "iub" and array.size <= MOST_NUMBERS:
                self._numbers[name] = known(array)
            else:
                self._buffers_of[name] = f"weight_{place}"
                self.register_buffer(f"weight_{place}", torch.from_numpy(array))
        self._set_signature()

    def _set_signature(self) -> None:
        names = identifiers(self._inputs)

        def forward(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return self._computed(inputs)

        kind = Parameter.POSITIONAL_OR_KEYWORD
        parameters = [Parameter(name, kind) for name in names]
        forward.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        self.forward = forward

    def _computed(self, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        values: dict[str, Value] = dict(zip(self._inputs, inputs, strict=True))
        values |= {name: getattr(self, buffer) for name, buffer in self._buffers_of.items()} | self._numbers
        for node in self._nodes:
            self.place = _label(node)
            results = self._results(OperatorCall(node, [values.get(name) for name in node.inputs]))
            if missing := self._read.intersection(node.outputs[len(results) :]):
                raise fixed_extents(self.place, f"its output {min(missing)} is not computed")
            values.update(zip(node.outputs, map(self._typed, node.outputs, results), strict=False))
        self.place = ""
        return tuple(as_tensor(values[name], self._type_of(name)) for name in self._outputs)

    def _results(self, call: OperatorCall) -> Sequence[Value]:
        if call.op in EXTENTS and call.are_known():
            with suppress(FixedExtentsError):
                return [EXTENTS[call.op](call)]
        try:
            found = CONVERTS[call.op](call)
        except FixedExtentsError as error:
            raise fixed_extents(self.place, str(error)) from error
        return found if isinstance(found, list) else [found]

    def _typed(self, name: str, value: Value) -> Value:
        """The value in the data type that ONNX infers."""
        dtype = self._type_of(name)
        return value.to(dtype) if isinstance(value, torch.Tensor) and dtype is not None else value

    def _type_of(self, name: str) -> torch.dtype | None:
        tensor = self._types.get(name)
        return None if tensor is None or not tensor.elem_type else torch_type(self._onnx, tensor.elem_type)


def fixed_extents(place: str, reason: str) -> SymbolicOnnxError:
    """Error of an operator, which `place` names with its node."""
    return SymbolicOnnxError(
        f"ONNX operator {place} works for fixed extents only: {reason}; tune the file for fixed shapes, or "
        "compute it by other operators"
    )


def _label(node: Node) -> str:
    name = node.proto.name or (node.outputs[0] if node.outputs else "without a name")
    return f"{node.op} (node {name})"


def identifiers(names: Sequence[str]) -> list[str]:
    """Names for the parameters of a function, each once."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"\W", "_", name)
        plain = f"_{plain}" if plain[:1].isdigit() or keyword.iskeyword(plain) or not plain else plain
        while plain in found:
            plain += "_"
        found.append(plain)
    return found
