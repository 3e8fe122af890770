"""Description of a compiled network, embedded in its library: target, inputs, outputs, tasks.

A Relax function without arguments returns the description as JSON bytes. Stock TVM loads and runs such a
library like any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.analysis import has_reshape_pattern
from tvm.target import Target

from ...compiler.tvm_compat import relax_bindings, target_to_json
from ...errors import UserError

FUNCTION = "foretune_description"
"""Name of the Relax function that returns the description."""

VERSION = 1
"""Version of the JSON layout, incremented when older releases can no longer read it."""


class DescriptionError(UserError, ValueError):
    """A library's description comes from an incompatible release."""


@dataclass(frozen=True)
class TensorSpec:
    """Name, shape and dtype of an input or output."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype} {list(self.shape)}"


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

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Description:
        """Parses a description. Raises DescriptionError for one of a later release."""
        values = json.loads(text)
        if (version := values.pop("version")) != VERSION:
            raise DescriptionError(
                f"description version {version}: this release reads {VERSION}; use the release that exported "
                "the network, or export it again"
            )
        for field in ("inputs", "outputs"):
            values[field] = tuple(
                TensorSpec(spec["name"], tuple(spec["shape"]), spec["dtype"]) for spec in values[field]
            )
        return cls(**{**values, "fresh": tuple(values["fresh"])})


def describe(mod: tvm.IRModule, target: Target, tasks: Mapping[str, str]) -> Description | None:
    """Description of a module's `main`; None unless all inputs and outputs are tensors of fixed shape.

    Args:
        mod: the module to compile, with its constants folded.
        tasks: name of the task of each function.
    """
    main = mod["main"]
    results = list(_results(main))
    inputs = [_spec(param.name, param.ty) for param in main.params]
    outputs = [_spec(f"output_{index}", result.ty) for index, result in enumerate(results)]
    known_inputs = tuple(spec for spec in inputs if spec is not None)
    known_outputs = tuple(spec for spec in outputs if spec is not None)
    if len(known_inputs) < len(inputs) or len(known_outputs) < len(outputs):
        return None
    computed = _computed(mod)
    fresh = tuple(isinstance(result, relax.Var) and result in computed for result in results)
    return Description(target_to_json(target), known_inputs, known_outputs, fresh, dict(tasks))


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


def _spec(name: str, kind: Any) -> TensorSpec | None:
    if not isinstance(kind, relax.TensorType) or kind.shape is None:
        return None
    try:
        shape = tuple(int(extent) for extent in kind.shape.values)
    except (AttributeError, TypeError):  # a symbolic extent
        return None
    return TensorSpec(name, shape, str(kind.dtype))


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


def _computed(mod: tvm.IRModule) -> set[relax.Var]:
    """Variables of `main` that a compiled function writes; a plain reshape is a view and does not count."""
    call_tir = tvm.ir.Op.get("relax.call_tir")
    return {
        var
        for var, value in relax_bindings(mod["main"])
        if isinstance(value, relax.Call)
        and value.op == call_tir
        and not has_reshape_pattern(mod[value.args[0]])
    }
