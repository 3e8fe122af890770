"""Replacement of the nodes of a graph by simpler ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...known import require_extra
from .nodes import Graph, Node, UnknownTypeError

Rewrite = Callable[[Node, Graph], "Sequence[str] | None"]
"""Adds nodes that replace one and returns the names of its outputs; None to leave the node unchanged."""

MOST_ROUNDS = 6
"""Rounds of replacement: what one makes may need another."""


def rewritten(model: Any, rewrites: Mapping[str, Rewrite]) -> Any:
    """The model with nodes replaced; nodes with values of unknown types stay, and so do those in branches."""
    for number in range(MOST_ROUNDS):
        if not any(_is_known(node, rewrites) for node in model.graph.node):
            break
        changed = _round(model, rewrites, number)
        if changed is None:
            break
        model = changed
    return model


def _is_known(node: Any, rewrites: Mapping[str, Rewrite]) -> bool:
    return node.domain in ("", "ai.onnx") and node.op_type in rewrites


def _round(model: Any, rewrites: Mapping[str, Rewrite], number: int) -> Any:
    """The model with each node replaced once; None if nothing is to do."""
    onnx = require_extra("onnx", "onnx", "network")
    opset = next((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), 1)
    typed = with_types(model)
    types, constants = types_of(typed, onnx), {one.name: one for one in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t
    nodes: list[Any] = []
    replaced = 0
    for place, proto in enumerate(model.graph.node):
        graph = Graph(onnx.helper, f"{proto.name or proto.output[0]}/{number}.{place}/", opset)
        names = None
        if _is_known(proto, rewrites):
            try:
                names = rewrites[proto.op_type](Node(proto, types, constants, onnx, opset), graph)
            except UnknownTypeError:
                names = None
        if names is None:
            nodes.append(proto)
            continue
        replaced += 1
        graph.returns(names, proto.output)
        nodes.extend(graph.nodes)
        model.graph.initializer.extend(graph.constants)
    if not replaced:
        return None
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def with_types(model: Any) -> Any:
    """The model with the types of all values, as far as ONNX infers them."""
    inference = require_extra("onnx.shape_inference", "onnx", "network")
    try:
        return inference.infer_shapes(model, data_prop=True)
    except Exception:  # of a model that contradicts itself, or is larger than 2 GB
        return model


def types_of(model: Any, onnx: Any) -> dict[str, Any]:
    """Tensor type of each value by name."""
    values = [*model.graph.input, *model.graph.value_info, *model.graph.output]
    found = {value.name: value.type.tensor_type for value in values if value.type.HasField("tensor_type")}
    for weight in model.graph.initializer:
        found[weight.name] = onnx.helper.make_tensor_type_proto(weight.data_type, weight.dims).tensor_type
    return found
