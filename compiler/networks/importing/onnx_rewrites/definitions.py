"""Operators by the functions that ONNX itself defines them by."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...known import require_extra
from .nodes import Graph, Node, UnknownTypeError
from .rewriting import Rewrite

ALWAYS = (
    *("Attention", "CenterCropPad", "DynamicQuantizeLinear", "NegativeLogLikelihoodLoss"),
    *("RotaryEmbedding", "SoftmaxCrossEntropyLoss"),
)
"""Operators that TVM's importer has and gets wrong."""

WITH_FURTHER_OUTPUTS = ("LayerNormalization",)
"""Operators whose further outputs TVM's importer gets wrong."""

OVER_SEVERAL_AXES = ("RMSNormalization",)
"""Operators that TVM lowers over the last axis alone."""


def definitions(known: Collection[str]) -> Mapping[str, Rewrite]:
    """Rewrites of all operators with a definition that an importer lacks or gets wrong.

    Args:
        known: operators that the importer converts.
    """
    schemas = require_extra("onnx.defs", "onnx", "network").get_all_schemas()
    defined = {
        one.name
        for one in schemas
        if one.domain == "" and (one.has_function or one.has_context_dependent_function)
    }
    chosen = (defined - set(known)) | {*ALWAYS, *WITH_FURTHER_OUTPUTS, *OVER_SEVERAL_AXES}
    return dict.fromkeys(sorted(chosen - {"SequenceMap"}), by_definition)


def by_definition(node: Node, g: Graph) -> Sequence[str] | None:
    """The nodes of an operator's definition."""
    if node.op in WITH_FURTHER_OUTPUTS and not (node.wants(1) or node.wants(2)):
        return None
    if node.op in OVER_SEVERAL_AXES and node.get("axis", -1) % node.rank(0) == node.rank(0) - 1:
        return None
    onnx = require_extra("onnx", "onnx", "network")
    function = _function(node, onnx)
    if function is None:
        return None
    schema = onnx.defs.get_schema(node.op, node.opset, "")
    attributes = {one.name: one for one in node.proto.attribute}
    for name, attribute in schema.attributes.items():
        if name not in attributes and attribute.default_value.name:
            attributes[name] = attribute.default_value
    names = {"": ""}
    names.update(zip(function.input, [*node.inputs, *[""] * len(function.input)], strict=False))
    _add(function.node, names, attributes, g)
    return [names.get(output, "") for output in function.output[: len(node.outputs)]]


def _function(node: Node, onnx: Any) -> Any:
    """The definition for the node's opset and the types of its inputs; None if there is none."""
    schema = onnx.defs.get_schema(node.op, node.opset, "")
    if schema.has_context_dependent_function:
        versions = [one for one in schema.context_dependent_function_opset_versions if one <= node.opset]
        types = [node.type_of(place) for place in range(len(node.inputs))]
        try:
            content = schema.get_context_dependent_function_with_opset_version(
                max(versions, default=schema.since_version),
                node.proto.SerializeToString(),
                [one.SerializeToString() for one in types],
            )
        except Exception as error:  # of types that the definition needs
            raise UnknownTypeError from error
        found = onnx.FunctionProto()
        found.ParseFromString(content)
        return found if found.node else None
    return schema.function_body if schema.has_function else None


def _add(nodes: Any, names: dict[str, str], attributes: Mapping[str, Any], g: Graph) -> None:
    """Adds the nodes of a function under new names, with the attributes of the node that it defines."""
    for one in nodes:
        outputs = {output: g.fresh() for output in one.output if output}
        names.update({output: outputs.get(output, "") for output in one.output})
        g.nodes.append(renamed(one, names, attributes))


def renamed(node: Any, names: Mapping[str, str], attributes: Mapping[str, Any] | None = None) -> Any:
    """A copy of a node with other names of its values, also in its graphs, and with values for attributes
    that refer to those of a function."""
    copied = type(node)()
    copied.CopyFrom(node)
    _rename(copied, names, attributes or {})
    outputs = [names.get(output, output) for output in node.output]
    del copied.output[:]
    copied.output.extend(outputs)
    return copied


def _rename(node: Any, names: Mapping[str, str], attributes: Mapping[str, Any]) -> None:
    """Renames the inputs of a node and of its branches, and gives values to attributes, in place."""
    inputs = [names.get(name, name) for name in node.input]
    del node.input[:]
    node.input.extend(inputs)
    kept = []
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            kept.append(attribute)
        elif attribute.ref_attr_name in attributes:
            value = type(attribute)()
            value.CopyFrom(attributes[attribute.ref_attr_name])
            value.name = attribute.name
            kept.append(value)
    for attribute in kept:
        if attribute.HasField("g"):
            for inner in attribute.g.node:
                _rename(inner, names, attributes)
            for output in attribute.g.output:
                output.name = names.get(output.name, output.name)
    copies = []
    for attribute in kept:
        copy = type(attribute)()
        copy.CopyFrom(attribute)
        copies.append(copy)
    del node.attribute[:]
    node.attribute.extend(copies)
