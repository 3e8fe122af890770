"""Conditions and loops of a graph, decided and unrolled where nothing that depends on an input decides.

A condition that follows from constants and shapes chooses its branch. A `Loop` whose end follows from them,
and a `Scan`, whose steps are an extent, become their steps one after another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...known import require_extra
from .definitions import renamed
from .nodes import Graph
from .rewriting import types_of, with_types

MOST_NODES = 20_000
"""Nodes up to which a loop is unrolled."""

_LARGEST = 65_536
"""Elements of the largest value that is evaluated here: conditions and counts come from small ones."""

KINDS = ("If", "Loop", "Scan")


def has_control_flow(model: Any) -> bool:
    """Whether a node of the graph has graphs of its own."""
    return any(node.op_type in KINDS for node in model.graph.node)


def without_control_flow(model: Any) -> Any:
    """The model with conditions decided and loops unrolled; what depends on inputs stays.

    Constants are evaluated in the same rounds, since shapes that decide may follow from them.
    """
    onnx = require_extra("onnx", "onnx", "network")
    while has_control_flow(model):
        values = _Values(with_types(model), onnx)
        nodes: list[Any] = []
        replaced = 0
        for place, node in enumerate(model.graph.node):
            graph = Graph(onnx.helper, f"{node.name or node.output[0]}/flow.{place}/", values.opset)
            expand = _EXPANSIONS.get(node.op_type)
            names = None if expand is None else expand(node, graph, values)
            if names is None:
                constants = values.constants(node) if expand is None else []
                replaced += bool(constants)
                model.graph.initializer.extend(constants)
                nodes += [] if constants else [node]
                continue
            replaced += 1
            graph.returns(names, node.output)
            nodes.extend(graph.nodes)
            model.graph.initializer.extend(graph.constants)
        if not replaced:
            break
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        del model.graph.value_info[:]
    return model


class _Values:
    """Values that follow from constants and shapes, evaluated when they are asked for."""

    def __init__(self, model: Any, onnx: Any) -> None:
        self._onnx = onnx
        self._types = types_of(model, onnx)
        self.opset = next((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), 1)
        self._imports = list(model.opset_import)
        self._known: dict[str, NDArray[Any] | None] = {"": None}
        self._constants = {one.name: one for one in model.graph.initializer}
        self._makers: dict[str, Any] = {}
        self.add(model.graph.node)

    def add(self, nodes: Sequence[Any], constants: Sequence[Any] = ()) -> None:
        """Further nodes and constants that values may come from."""
        self._constants.update({one.name: one for one in constants})
        self._makers.update({name: node for node in nodes for name in node.output if name})

    def shape(self, name: str) -> list[int] | None:
        """Shape of a value, None if it is unknown."""
        tensor = self._types.get(name)
        if tensor is None or not tensor.HasField("shape"):
            return None
        known = all(axis.HasField("dim_value") for axis in tensor.shape.dim)
        return [axis.dim_value for axis in tensor.shape.dim] if known else None

    def constants(self, node: Any) -> list[Any]:
        """Outputs of a node as constants; none if they depend on inputs."""
        found = [self.value(name) for name in node.output if name]
        if any(one is None for one in found):
            return []
        names = [name for name in node.output if name]
        return [self._onnx.numpy_helper.from_array(one, name) for one, name in zip(found, names, strict=True)]

    def value(self, name: str) -> NDArray[Any] | None:
        """The value of this name; None if it depends on inputs."""
        pending = [name]
        while pending:
            one = pending[-1]
            if one in self._known:
                pending.pop()
                continue
            maker = self._makers.get(one)
            shape = self.shape(maker.input[0]) if maker is not None and maker.op_type in _OF_SHAPES else None
            needed = [] if maker is None or shape is not None else [*maker.input]
            missing = [other for other in needed if other not in self._known]
            if missing:
                # A value that needs itself is of no valid graph; it counts as unknown.
                self._known.update({other: None for other in missing if other in pending})
                pending += [other for other in missing if other not in pending]
                continue
            self._known.update(self._evaluated(one, maker, shape))
            pending.pop()
        return self._known[name]

    def _evaluated(self, name: str, maker: Any, shape: list[int] | None) -> dict[str, NDArray[Any] | None]:
        if maker is None:
            found = self._constants.get(name)
            small = found is not None and np.prod(found.dims, dtype=np.int64) <= _LARGEST
            return {name: self._onnx.numpy_helper.to_array(found) if small else None}
        unknown: dict[str, NDArray[Any] | None] = dict.fromkeys([*maker.output, name])
        given: dict[str, Any]
        if shape is None:
            given = {one: self._known[one] for one in maker.input if one}
        else:  # an array of this shape that takes no memory
            given = {maker.input[0]: np.broadcast_to(np.float32(0), shape)}
        drawn = maker.op_type.startswith("Random") or maker.op_type in ("Bernoulli", "Multinomial", *KINDS)
        if drawn or any(one is None for one in given.values()) or (maker.input and not given):
            return unknown
        try:
            return dict(zip(maker.output, self._run(maker, given), strict=True))
        except Exception:  # the evaluator raises many types
            return unknown

    def _run(self, node: Any, given: Mapping[str, Any]) -> list[NDArray[Any]]:
        helper = self._onnx.helper
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in given.items()
        ]
        outputs = [self._onnx.ValueInfoProto(name=name) for name in node.output if name]
        model = helper.make_model(
            helper.make_graph([node], "node", inputs, outputs), opset_imports=self._imports
        )
        evaluator = require_extra("onnx.reference", "onnx", "network").ReferenceEvaluator
        found = [np.asarray(one) for one in evaluator(model).run(None, dict(given))]
        if any(one.size > _LARGEST for one in found):
            raise ValueError("a large value")
        return found


_OF_SHAPES = ("Shape", "Size")


def _added(body: Any, names: dict[str, str], g: Graph, values: _Values) -> list[str]:
    """Adds the nodes of a body, whose inputs have `names`; returns the names of its outputs."""
    before = len(g.nodes), len(g.constants)
    for weight in body.initializer:
        copied = type(weight)()
        copied.CopyFrom(weight)
        names[weight.name] = copied.name = g.fresh()
        g.constants.append(copied)
    for node in body.node:
        outputs = {output: g.fresh() for output in node.output if output}
        g.nodes.append(renamed(node, {**names, **outputs}))
        names.update(outputs)
    values.add(g.nodes[before[0] :], g.constants[before[1] :])
    return [names.get(output.name, output.name) for output in body.output]


def _graph_of(node: Any, name: str) -> Any:
    return next(one.g for one in node.attribute if one.name == name)


def _attribute(node: Any, name: str, default: Any) -> Any:
    found = next((one for one in node.attribute if one.name == name), None)
    return default if found is None else (list(found.ints) if found.ints else found.i)


def _if(node: Any, g: Graph, values: _Values) -> Sequence[str] | None:
    condition = values.value(node.input[0])
    if condition is None or condition.size != 1:
        return None
    return _added(_graph_of(node, "then_branch" if condition.any() else "else_branch"), {}, g, values)


def _loop(node: Any, g: Graph, values: _Values) -> Sequence[str] | None:
    body, given = _graph_of(node, "body"), [*node.input, "", ""]
    count, goes_on = (values.value(name) if name else None for name in given[:2])
    if (given[0] and count is None) or (given[1] and goes_on is None):
        return None
    states = list(node.input[2:])
    rows: list[list[str]] = []
    going = goes_on is None or bool(goes_on.all())
    while going and (count is None or len(rows) < int(count.reshape(()))):
        if (len(rows) + 1) * max(len(body.node), 1) > MOST_NODES:
            return None
        inputs = [g.constant(len(rows), np.int64), g.constant(True, np.bool_), *states]
        values.add([], g.constants[-2:])
        names = dict(zip((one.name for one in body.input), inputs, strict=True))
        condition, *found = _added(body, names, g, values)
        states, row = found[: len(states)], found[len(states) :]
        rows.append(row)
        decided = values.value(condition)
        if decided is None:
            return None
        going = bool(decided.all())
    outputs = len(node.output) - len(states)
    if outputs and not rows:
        return None
    return [*states, *(_stacked([row[place] for row in rows], 0, g) for place in range(outputs))]


def _scan(node: Any, g: Graph, values: _Values) -> Sequence[str] | None:
    body, taken = _graph_of(node, "body"), _attribute(node, "num_scan_inputs", 1)
    states, scanned = list(node.input[:-taken]), list(node.input[-taken:])
    outputs = len(body.output) - len(states)
    shapes = [values.shape(name) for name in scanned]
    axes = _attribute(node, "scan_input_axes", [0] * taken)
    backward = _attribute(node, "scan_input_directions", [0] * taken)
    if values.opset < 9 or any(not shape for shape in shapes):
        return None
    steps = {shape[axis] for shape, axis in zip(shapes, axes, strict=True) if shape}
    if len(steps) != 1 or min(steps) < 1 or min(steps) * len(body.node) > MOST_NODES:
        return None
    (count,) = steps
    rows: list[list[str]] = []
    for step in range(count):
        slices = [
            g("Gather", name, g.constant(count - 1 - step if back else step, np.int64), axis=axis)
            for name, axis, back in zip(scanned, axes, backward, strict=True)
        ]
        names = dict(zip((one.name for one in body.input), [*states, *slices], strict=True))
        found = _added(body, names, g, values)
        states = found[: len(states)]
        rows.append(found[len(states) :])
    places = _attribute(node, "scan_output_axes", [0] * outputs)
    turned = _attribute(node, "scan_output_directions", [0] * outputs)
    stacks = [
        _stacked([row[place] for row in (reversed(rows) if turned[place] else rows)], places[place], g)
        for place in range(outputs)
    ]
    return [*states, *stacks]


def _stacked(parts: Sequence[str], axis: int, g: Graph) -> str:
    return g("Concat", *(g("Unsqueeze", one, g.constant([axis], np.int64)) for one in parts), axis=axis)


_EXPANSIONS = {"If": _if, "Loop": _loop, "Scan": _scan}
