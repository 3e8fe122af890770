"""Networks that end early: the first operators of a network, by which a wrong conversion is located."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import fx

from .importing import onnx_graph
from .importing.onnx_import import as_file
from .loading import Network

FRAME = re.compile(r'File "(.+?)", line (\d+)')
"""A line of a traceback."""


@dataclass(frozen=True, eq=False)
class Prefixes:
    """The operators of a network in the order of their execution."""

    operators: Sequence[str]
    """Name and place of each, such as `aten.gather.default (encoder.attention, net.py:12)`."""
    first: Callable[[int], Network | None]
    """The network of the first operators, so many; its outputs are the values that later operators read.

    None if there are no such tensors.
    """


def prefixes_of(network: Network) -> Prefixes:
    """Prefixes of a network. Raises what `torch.export` and the reader of ONNX files raise."""
    if network.module is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations inside the exporter, which users cannot act on
            return _of_module(network)
    assert network.onnx_path is not None
    return _of_file(network, network.onnx_path)


def _of_module(network: Network) -> Prefixes:
    from .importing import torch_import  # see extraction.to_relax

    assert network.module is not None
    whole = torch_import.export(network.module, network.torch_inputs()).module()
    assert isinstance(whole, fx.GraphModule)
    calls = [node for node in whole.graph.nodes if node.op == "call_function"]

    def first(count: int) -> Network | None:
        kept = set(calls[:count])
        graph, outputs = fx.Graph(), []
        copies: dict[fx.Node, fx.Node] = {}
        for node in whole.graph.nodes:
            if node in kept or node.op in ("placeholder", "get_attr"):
                copies[node] = graph.node_copy(node, copies.__getitem__)
        for node in kept:
            read_later = any(user not in kept for user in node.users)
            if read_later and isinstance(node.meta.get("val"), torch.Tensor):
                outputs.append(copies[node])
        if not outputs:
            return None
        graph.output(tuple(outputs))
        return replace(network, module=fx.GraphModule(whole, graph).eval(), first_outputs=None)

    return Prefixes([_described(node) for node in calls], first)


def _described(node: fx.Node) -> str:
    """Operator of a node, with the module that calls it and the line of its source."""
    places = []
    if stack := node.meta.get("nn_module_stack"):
        path = str(list(stack.values())[-1][0]).removeprefix("L['self'].")
        places.append(path.removeprefix("network").removeprefix("."))
    if frames := FRAME.findall(node.stack_trace or ""):
        file, line = frames[-1]
        places.append(f"{Path(file).name}:{line}")
    named = ", ".join(place for place in places if place)
    return f"{node.target} ({named})" if named else str(node.target)


def _of_file(network: Network, path: Path) -> Prefixes:
    model = onnx_graph.prepared(path, network.inputs)
    nodes = list(model.graph.node)
    results = {value.name for value in model.graph.output}

    def first(count: int) -> Network | None:
        import onnx

        read = {name for node in nodes[count:] for name in _read(node)} | results
        names = [name for node in nodes[:count] for name in node.output if name and name in read]
        if not names:
            return None
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        del changed.graph.node[count:]
        del changed.graph.output[:]
        changed.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
        return replace(network, onnx_path=as_file(changed, path.name))

    return Prefixes([f"{node.op_type} (node {node.name or node.output[0]})" for node in nodes], first)


def _read(node: Any) -> Iterator[str]:
    """Names of the values that a node and its sub-graphs read."""
    yield from node.input
    for attribute in node.attribute:
        for graph in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
            for inner in graph.node:
                yield from _read(inner)
            yield from (value.name for value in graph.output)


def first_wrong(operators: int, agree: Callable[[int], bool], in_time: Callable[[], bool]) -> tuple[int, int]:
    """Range of operators, `first` to `last`, among which is the first with wrong values.

    Args:
        operators: number of operators; all together are wrong.
        agree: whether the first operators, so many, agree.
        in_time: whether the search may go on; otherwise the range has more than one operator.
    """
    low, high = 0, operators
    while high - low > 1 and in_time():
        middle = (low + high) // 2
        low, high = (middle, high) if agree(middle) else (low, middle)
    return low, high - 1
