"""Inputs, Relax module and reference outputs of ONNX files. Needs the `onnx` extra."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..inputs import InputSpec, given_value, has_value
from ..known import require_extra
from .onnx_graph import (
    LARGEST_BYTES,
    BadOnnxError,
    bind_values,
    graph_inputs,
    load,
    opset_of,
    prepared,
)

if TYPE_CHECKING:
    import tvm


_Result = TypeVar("_Result")


def input_signature(path: Path) -> list[tuple[str, list[int | None], str]]:
    """Name, shape (None if the extent is dynamic) and numpy dtype of each input."""
    return [
        (name, [extent if isinstance(extent, int) else None for extent in shape], dtype)
        for name, shape, dtype in declared_inputs(path)
    ]


def declared_inputs(path: Path) -> list[tuple[str, list[int | str | None], str]]:
    """Name, shape and numpy dtype of each input; a dynamic extent has the name in the file, or None."""
    model = load(path)
    onnx = require_extra("onnx", "onnx", f"network={path}")
    for role, values in (("input", graph_inputs(model)), ("output", model.graph.output)):
        for value in values:
            if other := _not_real(value, onnx):
                raise BadOnnxError(
                    f"network={path}: {role} {value.name} is of {other}, and a compiled network has tensors "
                    "of real numbers only; compute this part outside of the network"
                )
    return [
        (
            value.name,
            [
                axis.dim_value if axis.dim_value > 0 else axis.dim_param or None
                for axis in value.type.tensor_type.shape.dim
            ],
            str(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)),
        )
        for value in graph_inputs(model)
    ]


def _not_real(value: Any, onnx: Any) -> str:
    """Kind of a value that is not a tensor of real numbers; "" for such a tensor."""
    kind = value.type.WhichOneof("value") or "tensor_type"
    element = value.type.tensor_type.elem_type
    if kind != "tensor_type":
        return str(kind.removesuffix("_type"))
    if element == onnx.TensorProto.STRING:
        return "strings"
    return "complex numbers" if element in _complex(onnx) else ""


def _complex(onnx: Any) -> tuple[int, int]:
    return onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128


def file_bytes(path: Path) -> int:
    """Bytes of a model with its external data, without reading these. Raises BadOnnxError."""
    onnx = require_extra("onnx", "onnx", f"network={path}")
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf raises several types
        raise BadOnnxError(f"network={path}: not a readable ONNX model; export it again") from error
    names = {
        entry.value
        for weights in model.graph.initializer
        for entry in weights.external_data
        if entry.key == "location"
    }
    beside = [path.parent / name for name in names]
    return path.stat().st_size + sum(file.stat().st_size for file in beside if file.is_file())


def output_names(path: Path) -> list[str]:
    """Names of the outputs."""
    return [value.name for value in load(path).graph.output]


def given_values(path: Path, specs: Sequence[InputSpec]) -> tuple[dict[str, NDArray[Any]], list[InputSpec]]:
    """Values that some of the specifications give for inputs of the file, by name; and the others.

    Raises BadInputShapeError.
    """
    values, others = {}, []
    for position, (spec, (name, shape, dtype)) in enumerate(zip(specs, input_signature(path), strict=True)):
        if has_value(spec):
            values[name] = given_value(spec, position, dtype, shape)
        else:
            others.append(spec)
    return values, others


def with_values(path: Path, values: Mapping[str, NDArray[Any]]) -> Path:
    """File of the model with these inputs as constants, see `as_file`."""
    if not values:
        return path
    model = load(path)
    bind_values(model, values)
    return as_file(model, path.name)


def as_file(model: Any, name: str) -> Path:
    """File of a changed model, which exists until the process ends."""
    onnx = require_extra("onnx", "onnx", "network")
    folder = TemporaryDirectory(prefix="foretune-")
    _CHANGED.append(folder)
    path = Path(folder.name) / name
    onnx.save(model, path, save_as_external_data=model.ByteSize() > LARGEST_BYTES)
    return path


_CHANGED: list[TemporaryDirectory[str]] = []
"""Folders of changed models; the end of the process removes them."""


def operators(path: Path) -> set[str]:
    """Names of the operators of the graph."""
    return {node.op_type for node in load(path).graph.node}


def products_of_activations(path: Path) -> list[str]:
    """Names of the nodes that multiply matrices of which neither is a weight."""
    graph = load(path).graph
    weights = {initializer.name for initializer in graph.initializer}
    return [
        node.name
        for node in graph.node
        if node.op_type in ("MatMul", "Gemm") and not weights.intersection(node.input[:2])
    ]


def to_relax(path: Path, inputs: Sequence[NDArray[Any]]) -> tvm.IRModule:
    """Relax module of the graph with the shapes and dtypes of `inputs`, weights bound as constants.

    Raises BadOnnxError, RecurrentLayerError, and OnnxConversionError with the operator and the node.
    """
    from .onnx_converters import imported  # imports TVM

    model = prepared(path, inputs)
    names = [value.name for value in graph_inputs(model)]
    return imported(model, dict(zip(names, inputs, strict=True)), opset_of(model))


def reference_outputs(path: Path, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Outputs of ONNX's own evaluator, which is written in numpy and slow."""
    evaluator = require_extra("onnx.reference", "onnx", f"network={path}").ReferenceEvaluator
    model = load(path)
    names = [value.name for value in graph_inputs(model)]
    return [
        np.asarray(output) for output in evaluator(model).run(None, dict(zip(names, inputs, strict=True)))
    ]


def runtime_outputs(path: Path, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]] | None:
    """Outputs of an ONNX file by ONNX Runtime; None where that is not installed, or does not run it.

    Its graph is run unchanged. On a CPU without VNNI the fused integer operators have other outputs.
    """
    try:
        import onnxruntime as ort
    except ImportError:
        return None

    def run() -> list[NDArray[Any]]:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        names = [value.name for value in session.get_inputs()]
        found = session.run(None, dict(zip(names, inputs, strict=True)))
        return [np.asarray(output) for output in found]

    try:
        return in_thread(run)
    except Exception:  # its own types
        return None


def in_thread(work: Callable[[], _Result]) -> _Result:
    """Result of ONNX Runtime's work in a thread that ends with it.

    ONNX Runtime configures the tiles of AMX once in a thread. If a network of TVM has configured them
    otherwise since, its next product ends the process.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()
