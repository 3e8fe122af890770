"""ONNX graphs in the form that TVM's importer converts: fixed shapes, folded constants, simple operators.

The steps, in this order:

1. inputs get the shapes of the example inputs, and inputs with a given value become constants;
2. conditions are decided and loops unrolled (`control_flow`), as far as constants and shapes allow;
3. operators that ONNX defines by others, and TVM lacks or gets wrong, are replaced by their definition;
4. ONNX Runtime evaluates what depends on no input (its constant folding, without its fusions), so that shape
   arithmetic and axes become constants; this comes before the replacements, too;
5. recurrent layers are expanded (`onnx_recurrent`).

ONNX Runtime's folding took 0.3 to 3 s for each of five files of public packages and onnxslim 4 to 9 s on the
same busy machine; onnxsim crashed on all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import UserError
from ..known import require_extra
from . import onnx_recurrent
from .onnx_rewrites.control_flow import has_control_flow, without_control_flow
from .onnx_rewrites.definitions import definitions
from .onnx_rewrites.operators import REWRITES
from .onnx_rewrites.rewriting import rewritten

_LOG = logging.getLogger(__name__)

LARGEST_BYTES = 1_900_000_000
"""Largest model that is folded: protobuf holds 2 GB at most."""

LEAST_OPSET = 13
"""Operators are expanded in terms of this version, from which on axes of Slice and Split are inputs."""

LEAST_IR = 8
"""Version of the format in which weights are no inputs."""


class BadOnnxError(UserError, ValueError):
    """The file is not a readable ONNX model, or contradicts the given inputs."""


def load(path: Path) -> Any:
    """Model of a file with its external data; raises BadOnnxError, MissingExtraError.

    ONNX refuses external data outside of the file's folder.
    """
    onnx = require_extra("onnx", "onnx", f"network={path}")
    try:
        model = onnx.load(path)
    except Exception as error:  # protobuf and onnx raise several types
        reason = " ".join(str(error).split())
        raise BadOnnxError(
            f"network={path}: not a readable ONNX model ({reason[:300]}); export it again, and keep its data "
            "files in its folder"
        ) from error
    names = [value.name for value in model.graph.output]
    if len(set(names)) < len(names):
        raise BadOnnxError(f"network={path}: two outputs have the name {_repeated(names)}; export it again")
    if not model.graph.node and not names:
        raise BadOnnxError(f"network={path}: the graph has no operators and no outputs; export it again")
    return model


def _repeated(names: Sequence[str]) -> str:
    return next(name for name in names if names.count(name) > 1)


def graph_inputs(model: Any) -> list[Any]:
    """Inputs of the graph without initializers, which older files list as inputs, too."""
    weights = {initializer.name for initializer in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]


def _without_weights_as_inputs(model: Any) -> None:
    """Drop inputs that are weights, in place: older files list both, and folding renames some weights."""
    kept = graph_inputs(model)
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.ir_version = max(model.ir_version, LEAST_IR)


def prepared(
    path: Path, inputs: Sequence[NDArray[Any]], values: Mapping[str, NDArray[Any]] | None = None
) -> Any:
    """Simplified model of a file for inputs of these shapes and dtypes.

    Args:
        inputs: example inputs in the order of the graph's inputs without `values`.
        values: inputs that become constants, by name.

    Raises BadOnnxError if the inputs contradict the file, RecurrentLayerError, MissingExtraError.
    """
    model = load(path)
    _without_weights_as_inputs(model)
    bind_values(model, values or {})
    fix_shapes(model, inputs, path)
    return simplified(model)


def bind_values(model: Any, values: Mapping[str, NDArray[Any]]) -> None:
    """Turn inputs into constants, in place."""
    onnx = require_extra("onnx", "onnx", "network")
    for name, value in values.items():
        kept = [one for one in model.graph.input if one.name != name]
        del model.graph.input[:]
        model.graph.input.extend(kept)
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))


def fix_shapes(model: Any, inputs: Sequence[NDArray[Any]], path: Path) -> None:
    """Give the graph's inputs the shapes of arrays, in place, and drop shapes that depend on them."""
    for value, array in zip(graph_inputs(model), inputs, strict=True):
        tensor = value.type.tensor_type
        declared = [axis.dim_value if axis.dim_value > 0 else None for axis in tensor.shape.dim]
        fits = not tensor.HasField("shape") or (
            len(declared) == array.ndim
            and all(known in (None, given) for known, given in zip(declared, array.shape, strict=True))
        )
        if not fits:
            shown = [extent if extent is not None else "any" for extent in declared]
            raise BadOnnxError(
                f"network={path}: input {value.name} has shape {shown} in the file, and inputs= gives "
                f"{list(array.shape)}; correct inputs="
            )
        tensor.ClearField("shape")
        tensor.shape.SetInParent()
        for extent in array.shape:
            tensor.shape.dim.add().dim_value = extent
    del model.graph.value_info[:]
    for output in model.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")


def simplified(model: Any) -> Any:
    """The model after steps 2 to 5 of this module; its inputs have fixed shapes."""
    onnx = require_extra("onnx", "onnx", "network")
    model = _recent(model, LEAST_OPSET)
    model = _inlined(model)
    from .onnx_converters import known_operators  # imports TVM

    rewrites = {**definitions(known_operators()), **REWRITES}
    model = _evaluated(without_control_flow(model))
    model = rewritten(model, rewrites)
    if has_control_flow(model):  # of operators that are defined by loops
        model = rewritten(without_control_flow(_evaluated(model)), rewrites)
    model = _evaluated(model)
    if any(node.op_type in onnx_recurrent.CELLS for node in model.graph.node):
        model = folded(_with_expanded_layers(model, onnx))
    return model


def with_symbols(path: Path, known: Collection[str]) -> Any:
    """Simplified model of a file whose extents stay as they are, with steps 2 to 4 of this module.

    Operators that are not among `known` are replaced by their definition. Raises BadOnnxError.
    """
    model = load(path)
    _without_weights_as_inputs(model)
    model = _evaluated(without_control_flow(_inlined(_recent(model, LEAST_OPSET))))
    return _evaluated(rewritten(model, definitions(known)))


def _evaluated(model: Any) -> Any:
    """`folded`, unless a branch remains: the model is refused, and ONNX Runtime ends the process on some."""
    return model if any(node.op_type == "If" for node in model.graph.node) else folded(model)


def opset_of(model: Any) -> int:
    """Version of ONNX's own operators in a model."""
    return next((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), 1)


def _part(name: str) -> Any:
    """A module of the package onnx, which does not import all of them itself."""
    return require_extra(f"onnx.{name}", "onnx", "network")


def _recent(model: Any, opset: int) -> Any:
    """The model in this opset or a later one, if ONNX's converter can do it."""
    version = opset_of(model)
    if version >= opset or (version < 9 and has_control_flow(model)):  # it converts the first Scan wrongly
        return model
    try:
        return _part("version_converter").convert_version(model, opset)
    except Exception as error:  # the converter lacks adapters
        _LOG.debug("opset %d stays: %s", version, error)
        return model


def _inlined(model: Any) -> Any:
    """The model without its own functions."""
    return _part("inliner").inline_local_functions(model) if model.functions else model


def folded(model: Any) -> Any:
    """The model with everything evaluated that depends on no input, by ONNX Runtime.

    A quantised model stays unchanged, since folding would replace its integer weights by float32. So does a
    model that ONNX Runtime cannot load, for example one with a data type that it has no kernels for.
    """
    onnx = require_extra("onnx", "onnx", "network")
    if any(node.op_type in ("DequantizeLinear", "QuantizeLinear") for node in model.graph.node):
        return model
    if model.ByteSize() > LARGEST_BYTES:
        return model
    ort = require_extra("onnxruntime", "onnx", "network")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    with TemporaryDirectory() as folder:
        found = Path(folder) / "folded.onnx"
        options.optimized_model_filepath = str(found)
        try:
            ort.InferenceSession(
                model.SerializeToString(),
                options,
                providers=["CPUExecutionProvider"],
                disabled_optimizers=FUSIONS,
            )
            return onnx.load(found)
        except Exception as error:  # ONNX Runtime raises its own types
            _LOG.debug("ONNX Runtime folds nothing: %s", error)
            return model


FUSIONS = {
    *("ConvAddFusion", "ConvMulFusion", "ConvBNFusion", "MatMulAddFusion", "MatmulBNFusion", "PadFusion"),
    *("ReshapeFusion", "GemmSumFusion", "GemmTransposeFusion", "ClipQuantFusion", "ReluQuantFusion"),
    *("LabelEncoderFusion", "NotWhereFusion", "FuseReluClip", "DivMulFusion", "PreShapeNodeElimination"),
    *("DoubleQDQPairsRemover", "NoopElimination", "EliminateDropout", "ShapeInputMerge"),
}
"""Optimisers of ONNX Runtime's basic level that change operators: tasks stay those of the file."""


def _with_expanded_layers(model: Any, onnx: Any) -> Any:
    model = _part("shape_inference").infer_shapes(model)
    types = {value.name: value.type.tensor_type for value in [*model.graph.input, *model.graph.value_info]}
    for weight in model.graph.initializer:
        types[weight.name] = onnx.helper.make_tensor_type_proto(weight.data_type, weight.dims).tensor_type
    nodes: list[Any] = []
    for node in model.graph.node:
        if node.op_type not in onnx_recurrent.CELLS:
            nodes.append(node)
            continue
        tensor = types.get(node.input[0])
        shape = [axis.dim_value for axis in tensor.shape.dim] if tensor is not None else []
        if tensor is None or len(shape) != 3 or min(shape) < 1:
            raise onnx_recurrent.RecurrentLayerError(
                f"ONNX node {node.name or node.output[0]} ({node.op_type}): constant folding leaves the "
                "shape of its input open; give the network inputs of fixed shapes"
            )
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        graph = onnx_recurrent.expand(node, shape, dtype, onnx.helper)
        nodes.extend(graph.nodes)
        model.graph.initializer.extend(graph.constants)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    del model.graph.value_info[:]
    return model
