"""TVM's ONNX importer, with errors that name the operator and its node."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from ....errors import UserError, first_line
from ...tvm_compat.dumps import without_dumps
from .onnx_own import CONSTANT, CONVERTERS, REFUSED


class OnnxConversionError(UserError, ValueError):
    """TVM's importer does not know an ONNX operator, or cannot convert a node."""


def imported(model: Any, inputs: Mapping[str, NDArray[Any]], opset: int) -> tvm.IRModule:
    """Relax module of a prepared model (`onnx_graph.prepared`) in an opset, weights bound as constants.

    Raises OnnxConversionError.
    """
    with warnings.catch_warnings(), without_dumps():
        warnings.simplefilter("ignore")
        return _imported(model, inputs, opset)


def _imported(model: Any, inputs: Mapping[str, NDArray[Any]], opset: int) -> tvm.IRModule:
    importer = _OnnxImporter(
        {name: list(array.shape) for name, array in inputs.items()},
        {name: str(array.dtype) for name, array in inputs.items()},
    )
    return importer.from_onnx(model.graph, opset)


def known_operators() -> set[str]:
    """Operators that this importer converts."""
    return {*onnx_frontend._get_convert_map(), *CONVERTERS, "Constant"} - REFUSED.keys()


class _OnnxImporter(onnx_frontend.ONNXGraphImporter):
    """TVM's importer with errors that name the operator and its node."""

    def _check_for_unsupported_ops(self, graph: Any) -> None:
        known = known_operators()
        unknown = {node.op_type: node for node in graph.node if node.op_type not in known}
        if unknown:
            names = ", ".join(
                f"{name} (node {_label(node)}{_reason(name)})" for name, node in sorted(unknown.items())
            )
            raise OnnxConversionError(
                f"ONNX operators that cannot be lowered: {names}; compute them by other operators"
            )
        _refuse_small_types(graph)
        fixed = {one.name for one in graph.initializer}
        fixed |= {node.output[0] for node in graph.node if node.op_type == "Constant"}
        given = {value.name for value in graph.input} - fixed
        for node in graph.node:
            for place, operand in CONSTANT.get(node.op_type, {}).items():
                name = node.input[place] if place < len(node.input) else ""
                if name and name not in fixed:
                    raise OnnxConversionError(_not_constant(node, operand, name, name in given))

    def _convert_operator(
        self, op_name: str, inputs: Sequence[Any], attrs: Mapping[str, Any], opset: int
    ) -> relax.Expr:
        try:
            if op_name in CONVERTERS:
                return self.bb.normalize(CONVERTERS[op_name](self.bb, inputs, attrs))
            return super()._convert_operator(op_name, inputs, attrs, opset)
        except UserError:
            raise
        except Exception as error:  # converters raise many types
            node = attrs["tvm_custom"]["name"]
            raise OnnxConversionError(
                f"ONNX operator {op_name} (node {node}) cannot be lowered: "
                f"{first_line(error)}; compute it by other operators"
            ) from error


def _refuse_small_types(graph: Any) -> None:
    """Raises OnnxConversionError for a node with floats of 8 or with numbers of fewer bits."""
    small = {
        element: name.lower()
        for name, element in onnx.TensorProto.DataType.items()
        if name.startswith(("FLOAT8", "FLOAT4", "INT4", "UINT4", "INT2", "UINT2"))
    }
    weights = {one.name: one.data_type for one in graph.initializer}
    for node in graph.node:
        made = [one.i for one in node.attribute if one.name in ("to", "output_dtype")]
        made += [one.t.data_type for one in node.attribute if one.HasField("t")]
        for element in (*made, *(weights.get(name, 0) for name in node.input)):
            if element in small:
                raise OnnxConversionError(
                    f"ONNX operator {node.op_type} (node {_label(node)}) cannot be lowered: it has numbers "
                    f"of type {small[element]}; use integers of at least 8 bits, or float16"
                )


def _reason(operator: str) -> str:
    return f": {REFUSED[operator]}" if operator in REFUSED else ""


def _not_constant(node: Any, operand: str, name: str, is_input: bool) -> str:
    remedy = (
        f"give the input {name} its value in inputs=, as in {{value: [2, 3]}}"
        if is_input
        else "export the network with fixed shapes"
    )
    return (
        f"ONNX operator {node.op_type} (node {_label(node)}) cannot be lowered: its operand {operand} "
        f"({name}) is not constant; {remedy}"
    )


def _label(node: Any) -> str:
    return node.name or (node.output[0] if node.output else "without a name")
