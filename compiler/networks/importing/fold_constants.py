"""Folding of what depends on no input: parts of an exported program that PyTorch evaluates beforehand.

Networks make attention masks and position numbers of `arange`, `cumsum` and comparisons in each run. They
become constants here, before TVM sees operators that it converts badly or builds no code for.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

LIMIT_BYTES = 64 * 2**20
"""Size of a value above which it is computed in each run: the library has its constants in it."""

_ATEN = torch.ops.aten
_EXPAND = _ATEN.expand.default
_VIEWS = {
    _EXPAND,
    _ATEN.alias.default,
    _ATEN.detach.default,
    _ATEN.permute.default,
    _ATEN.select.int,
    _ATEN.slice.Tensor,
    _ATEN.squeeze.dims,
    _ATEN.t.default,
    _ATEN.transpose.int,
    _ATEN.unsqueeze.default,
    _ATEN.view.default,
    operator.getitem,
}
"""Operators that compute nothing: those of a weight are left to the conversion, which knows them."""

_UNDEFINED = {_ATEN.empty.memory_format, _ATEN.empty_like.default, _ATEN.empty_permuted.default}


def fold_constants(program: ExportedProgram) -> int:
    """Evaluates what depends on no input and puts the values into `program` as constants, in place.

    Random operators, undefined memory, buffers that the program changes and values over LIMIT_BYTES stay, and
    so does what depends on them. Returns the number of constants added.
    """
    values = _evaluated(program)
    folded = 0
    for node in list(_frontier(program.graph, values)):
        _replace(program, node, values[node], folded)
        folded += 1
    if folded:
        program.graph.eliminate_dead_code()
        program.graph_module.recompile()
    return folded


def independent(program: ExportedProgram) -> set[fx.Node]:
    """Nodes that `fold_constants` evaluates: nodes that depend on no input."""
    weights = weights_of(program)
    found: set[fx.Node] = set()
    for node in program.graph.nodes:
        weight = node.op == "placeholder" and node.name in weights
        if weight or (node.op == "call_function" and _can_be_evaluated(node, found)):
            found.add(node)
    return found


def _evaluated(program: ExportedProgram) -> dict[fx.Node, Any]:
    """Values of the independent nodes."""
    weights, wanted = weights_of(program), independent(program)
    values: dict[fx.Node, Any] = {}
    with torch.no_grad():
        for node in program.graph.nodes:
            if node not in wanted:
                continue
            if node.op == "placeholder":
                values[node] = weights[node.name]
            else:
                arguments, options = fx.map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = node.target(*arguments, **options)
    return values


def weights_of(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """Parameters, buffers and constants by the names of their placeholders, without buffers that change."""
    signature = program.graph_signature
    changed = set(signature.buffers_to_mutate.values())
    tensors = dict([*program.named_parameters(), *program.named_buffers(), *program.constants.items()])
    return {
        spec.arg.name: tensors[spec.target]
        for spec in signature.input_specs
        if spec.kind is not InputKind.USER_INPUT
        and spec.target not in changed
        and isinstance(tensors.get(spec.target or ""), torch.Tensor)
    }


def _can_be_evaluated(node: fx.Node, independent: set[fx.Node]) -> bool:
    if any(argument not in independent for argument in node.all_input_nodes):
        return False
    if node.target is operator.getitem:
        return True
    if not isinstance(node.target, torch._ops.OpOverload) or node.target in _UNDEFINED:
        return False
    if torch.Tag.nondeterministic_seeded in node.target.tags or node.is_impure():
        return False
    made = node.meta.get("val")
    parts = made if isinstance(made, list | tuple) else [made]
    # A size that depends on data is no number here.
    return all(
        isinstance(part, torch.Tensor)
        and all(isinstance(extent, int) for extent in part.shape)
        and part.numel() * part.element_size() <= LIMIT_BYTES
        for part in parts
    )


def _frontier(graph: fx.Graph, values: dict[fx.Node, Any]) -> Iterator[fx.Node]:
    """Evaluated nodes that others read, each once; the smaller input of an expansion in its place."""
    computed: set[fx.Node] = set()
    for node in graph.nodes:
        inputs = node.all_input_nodes
        if (
            node in values
            and node.op == "call_function"
            and (node.target not in _VIEWS or any(one in computed for one in inputs))
        ):
            computed.add(node)
    wanted: dict[fx.Node, None] = {}
    for node in graph.nodes:
        if node in computed and any(user not in values for user in node.users):
            while node.target is _EXPAND and node.args[0] in computed:
                node = node.args[0]
            if isinstance(values[node], torch.Tensor):
                wanted[node] = None
    yield from wanted


def _replace(program: ExportedProgram, node: fx.Node, value: torch.Tensor, number: int) -> None:
    """A constant in place of the node."""
    name = f"folded_{number}"
    first = next(iter(program.graph.nodes))
    with program.graph.inserting_before(first):
        placeholder = program.graph.placeholder(name)
    placeholder.meta = dict(node.meta)
    node.replace_all_uses_with(placeholder)
    argument = TensorArgument(name=placeholder.name)
    spec = InputSpec(InputKind.CONSTANT_TENSOR, argument, target=placeholder.name, persistent=None)
    program.graph_signature.input_specs.insert(0, spec)
    program.constants[placeholder.name] = value.detach().contiguous().clone()
