"""TVM's ONNX importer, with errors that name the operator and its node."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from ....errors import UserError, first_line
from ...tvm_compat.dumps import without_dumps
from .onnx_graph import opset_of


class OnnxConversionError(UserError, ValueError):
    """TVM's importer does not know an ONNX operator, or cannot convert a node."""


def imported(model: Any, inputs: Mapping[str, NDArray[Any]]) -> tvm.IRModule:
    """Relax module of a prepared model (`onnx_graph.prepared`), weights bound as constants.

    Raises OnnxConversionError.
    """
    with warnings.catch_warnings(), without_dumps():
        warnings.simplefilter("ignore")
        return _imported(model, inputs)


def _imported(model: Any, inputs: Mapping[str, NDArray[Any]]) -> tvm.IRModule:
    importer = _OnnxImporter(
        {name: list(array.shape) for name, array in inputs.items()},
        {name: str(array.dtype) for name, array in inputs.items()},
    )
    return importer.from_onnx(model.graph, opset_of(model))


class _OnnxImporter(onnx_frontend.ONNXGraphImporter):
    """TVM's importer with errors that name the operator and its node."""

    def _check_for_unsupported_ops(self, graph: Any) -> None:
        known = {*onnx_frontend._get_convert_map(), "If", "Constant"}
        unknown = {node.op_type: node for node in graph.node if node.op_type not in known}
        if unknown:
            names = ", ".join(f"{name} (node {_label(node)})" for name, node in sorted(unknown.items()))
            raise OnnxConversionError(
                f"ONNX operators that cannot be lowered: {names}; compute them by other operators"
            )

    def _convert_operator(
        self, op_name: str, inputs: Sequence[Any], attrs: Mapping[str, Any], opset: int
    ) -> relax.Expr:
        if op_name == "BatchNormalization" and attrs.get("training_mode"):
            raise OnnxConversionError(
                f"ONNX operator BatchNormalization (node {attrs['tvm_custom']['name']}) is in training mode; "
                "export the network in evaluation mode"
            )
        try:
            return super()._convert_operator(op_name, inputs, attrs, opset)
        except UserError:
            raise
        except Exception as error:  # converters raise many types
            node = attrs["tvm_custom"]["name"]
            raise OnnxConversionError(
                f"ONNX operator {op_name} (node {node}) cannot be lowered: "
                f"{first_line(error)}; compute it by other operators"
            ) from error


def _label(node: Any) -> str:
    return node.name or (node.output[0] if node.output else "without a name")
