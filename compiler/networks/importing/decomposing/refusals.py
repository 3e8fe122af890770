"""Programs whose meaning a compiled network of fixed shapes cannot keep, refused by name.

TVM's importer fails on some of them with an error that names no operator, and converts others into networks
that compute something else: random numbers would be drawn once, for all runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from .errors import ConversionError

_WITH_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool, torch.Tensor)
_READ = (torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default)


def refuse_unknown_shapes(program: ExportedProgram) -> None:
    """Raises ConversionError for an operator whose output shape depends on data."""
    for node in program.graph.nodes:
        if node.op != "call_function" or not _has_unknown_extent(node.meta.get("val")):
            continue
        if node.target in _READ:
            raise ConversionError(f"{_name(node.target)} reads a number of a tensor; keep it a tensor")
        raise ConversionError(
            f"{_name(node.target)} makes a tensor whose shape depends on data; give it a fixed number of "
            "elements, for example by torch.where instead of a selection"
        )


def refuse_random(program: ExportedProgram) -> None:
    """Raises ConversionError for an operator that draws random numbers."""
    for node in program.graph.nodes:
        target = node.target
        if isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags:
            raise ConversionError(f"{_name(target)} draws random numbers; give them as an input")


def refuse_changes(program: ExportedProgram) -> None:
    """Raises ConversionError if the program changes its buffers or inputs in each run."""
    signature = program.graph_signature
    for name in signature.buffers_to_mutate.values():
        raise ConversionError(
            f"the network changes its buffer {name.removeprefix('network.')} in each run; give it as an "
            "input and return the changed one"
        )
    for name in signature.user_inputs_to_mutate.values():
        raise ConversionError(f"the network changes its input {name} in each run; return the changed one")


def _has_unknown_extent(value: Any) -> bool:
    """Whether an extent or a number depends on data; symbols of dynamic shapes are known."""
    return any(free_unbacked_symbols(part) for part in _parts(value) if isinstance(part, _WITH_SYMBOLS))


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for part in value:
            yield from _parts(part)
    else:
        yield value


def _name(target: Any) -> str:
    return str(target).removeprefix("aten.")
