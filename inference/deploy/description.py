"""Description of a compiled network, embedded in its library: target, inputs, outputs, tasks.

A Relax function without arguments returns the description as JSON bytes. Stock TVM loads and runs such a
library like any other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.analysis import has_reshape_pattern
from tvm.target import Target
from tvm.tirx import IntImm

from ...compiler.dynamic.symbols import BEYOND, Extent, Symbol
from ...compiler.tvm_compat import relax_bindings, target_to_json
from ...errors import UserError

if TYPE_CHECKING:
    from ...compiler.networks.dynamic.dynamic_inputs import DynamicInputs, Shape

MAIN = "main"
"""Name of the Relax function that runs the network."""

FUNCTION = "foretune_description"
"""Name of the Relax function that returns the description."""

VERSION, DYNAMIC_VERSION = 1, 2
"""Versions of the JSON layout: older releases cannot read the second one, of networks with dynamic shapes."""


class DescriptionError(UserError, ValueError):
    """A library's description comes from an incompatible release."""


@dataclass(frozen=True)
class TensorSpec:
    """Name, shape and dtype of an input or output."""

    name: str
    shape: tuple[int | str, ...]
    """Extents; a text, such as `n`, `8*n` or `n // 2`, is one in terms of the network's symbols."""
    dtype: str

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype} {shown(self.shape)}"


def shown(shape: Sequence[int | str]) -> str:
    """A shape for a user, such as [1, n, 64]."""
    return f"[{', '.join(map(str, shape))}]"


_OF_DYNAMIC = ("beyond", "families")
"""Fields that only networks with symbols have."""


@dataclass(frozen=True)
class Description:
    """Interface of a compiled network for its callers."""

    target: str
    """TVM target as JSON."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    fresh: tuple[bool, ...]
    """For each output, whether every run writes it into new memory; False if it may be a view of an input
    or of a weight."""
    tasks: Mapping[str, str]
    """Name of the task of each function that runs one."""
    symbols: tuple[Symbol, ...] = ()
    """Symbols in the shapes, and their ranges; empty for a network of fixed shapes."""
    beyond: bool = False
    """Whether the function BEYOND runs sizes outside of the ranges."""
    families: tuple[Mapping[str, Any], ...] = ()
    """Kernels of each task of symbolic extents, as `FamilyTask.as_json` describes them."""

    def to_json(self) -> str:
        values = asdict(self)
        symbols = {one["name"]: [one["low"], one["high"]] for one in values.pop("symbols")}
        if symbols:
            return json.dumps({"version": DYNAMIC_VERSION, **values, "symbols": symbols})
        for field in _OF_DYNAMIC:
            del values[field]
        return json.dumps({"version": VERSION, **values})

    @classmethod
    def from_json(cls, text: str) -> Description:
        """Parses a description. Raises DescriptionError for one of a later release."""
        values = json.loads(text)
        if (version := values.pop("version")) not in (VERSION, DYNAMIC_VERSION):
            raise DescriptionError(
                f"description version {version}: this release reads {VERSION} and {DYNAMIC_VERSION}; use the "
                "release that exported the network, or export it again"
            )
        ranges = values.pop("symbols", {}).items()
        for field in ("inputs", "outputs"):
            values[field] = tuple(
                TensorSpec(spec["name"], tuple(spec["shape"]), spec["dtype"]) for spec in values[field]
            )
        symbols = tuple(Symbol(name, low, high) for name, (low, high) in ranges)
        families = tuple(values.pop("families", ()))
        return cls(**{**values, "fresh": tuple(values["fresh"]), "symbols": symbols, "families": families})


def describe(
    mod: tvm.IRModule,
    target: Target,
    tasks: Mapping[str, str],
    dynamic: DynamicInputs | None = None,
    families: Sequence[Mapping[str, Any]] = (),
) -> Description | None:
    """Description of a module's `main`.

    Args:
        mod: the module to compile, with its constants folded.
        target: target of its code.
        tasks: name of the task of each function.
        dynamic: shapes of the inputs, if the network has symbols.
        families: its tasks of symbolic extents.

    Returns None unless all inputs and outputs are tensors of fixed shape, or of shapes in terms of symbols.
    """
    main = mod["main"]
    results = list(_results(main))
    shapes = [None] * len(main.params) if dynamic is None else dynamic.shapes
    inputs = [
        _spec(param.name, param.ty) if shape is None else _spec_of(param, shape)
        for param, shape in zip(main.params, shapes, strict=True)
    ]
    outputs = [
        _spec(f"output_{index}", result.ty, symbolic=dynamic is not None)
        for index, result in enumerate(results)
    ]
    known_inputs = tuple(spec for spec in inputs if spec is not None)
    known_outputs = tuple(spec for spec in outputs if spec is not None)
    if len(known_inputs) < len(inputs) or len(known_outputs) < len(outputs):
        return None
    functions = {var.name_hint for var, _ in mod.functions_items()}
    entries = [name for name in (MAIN, BEYOND) if name in functions]
    fresh = tuple(map(all, zip(*(_fresh(mod, name) for name in entries), strict=True)))
    symbols = () if dynamic is None else tuple(dynamic.symbols.values())
    return Description(
        target_to_json(target),
        known_inputs,
        known_outputs,
        fresh,
        dict(tasks),
        symbols,
        beyond=BEYOND in entries,
        families=tuple(families),
    )


def with_description(mod: tvm.IRModule, description: Description) -> tvm.IRModule:
    """The module with a function that returns the description."""
    builder = relax.BlockBuilder()
    with builder.function(FUNCTION, []):
        text = np.frombuffer(description.to_json().encode(), np.uint8)
        builder.emit_func_output(relax.const(text))
    described = tvm.IRModule(mod.functions, attrs=mod.attrs)
    described[FUNCTION] = builder.get()[FUNCTION]
    return described


def read_description(library: tvm.runtime.Module) -> Description | None:
    """The description in a loaded library, or None without one. It runs no compiled function.

    Raises DescriptionError.
    """
    machine = relax.VirtualMachine(library, tvm.cpu())
    try:
        function = machine[FUNCTION]
    except AttributeError:
        return None
    return Description.from_json(function().numpy().tobytes().decode())


def _spec_of(param: relax.Var, shape: Shape) -> TensorSpec:
    """An input whose shape is in terms of symbols."""
    extents = tuple(str(extent) if isinstance(extent, Extent) else extent for extent in shape)
    return TensorSpec(param.name, extents, str(param.ty.dtype))


def _spec(name: str, kind: Any, *, symbolic: bool = False) -> TensorSpec | None:
    if not isinstance(kind, relax.TensorType) or kind.shape is None:
        return None
    try:
        shape = tuple(
            int(extent) if isinstance(extent, IntImm) or not symbolic else _in_words(extent)
            for extent in kind.shape.values
        )
    except (AttributeError, TypeError):  # a symbolic extent
        return None
    return TensorSpec(name, shape, str(kind.dtype))


def _in_words(extent: Any) -> str:
    """An extent as users write it, without TVM's data types: `n // 2`."""
    return re.sub(r"T\.int64\((-?\d+)\)", r"\1", str(extent))


def _results(main: relax.Function) -> Iterator[relax.Expr]:
    """The tensors that a function returns, in order; nested tuples are flattened."""
    values = dict(relax_bindings(main))

    def leaves(expr: relax.Expr) -> Iterator[relax.Expr]:
        value = expr
        while isinstance(value, relax.Var) and isinstance(values.get(value), relax.Var | relax.Tuple):
            value = values[value]
        if isinstance(value, relax.Tuple):
            for field in value.fields:
                yield from leaves(field)
        else:
            yield value

    return leaves(main.body.body)


def _fresh(mod: tvm.IRModule, entry: str) -> list[bool]:
    """For each output of a Relax function, whether a run writes it into new memory."""
    computed = _computed(mod, entry)
    return [isinstance(result, relax.Var) and result in computed for result in _results(mod[entry])]


def _computed(mod: tvm.IRModule, entry: str) -> set[relax.Var]:
    """Variables that a compiled function writes; a plain reshape is a view and does not count."""
    call_tir = tvm.ir.Op.get("relax.call_tir")
    return {
        var
        for var, value in relax_bindings(mod[entry])
        if isinstance(value, relax.Call)
        and value.op == call_tir
        and not has_reshape_pattern(mod[value.args[0]])
    }
