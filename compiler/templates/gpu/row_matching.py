"""Functions that normalise rows: layer norm and softmax."""

from __future__ import annotations

from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from ...operators.shared.tir import extents
from ..cpu.contraction import blocks_of
from .problem import DTYPES, NOTHING
from .rows import WIDEST, Rows

_TYPES = {tvm_name: name for name, tvm_name in DTYPES.items()}


def read_rows(mod: tvm.IRModule) -> tuple[Rows, tuple[int, ...]] | None:
    """The normalisation of rows that `main` seems to be, and the parameter of each of its arrays.

    Parameters are recognised by their shapes only, so the caller must compare values.
    """
    func = mod["main"]
    *inputs, output = func.params
    types = [_TYPES[dtype] for param in func.params if (dtype := str(param.dtype)) in _TYPES]
    columns = extents(inputs[0])[-1] if inputs and extents(inputs[0]) else 0
    if (
        len(types) < len(func.params)
        or not 1 < columns <= WIDEST
        or prod(extents(inputs[0])) != prod(extents(output))
    ):
        return None
    reduced = sum(block.init is not None for block in blocks_of(mod))
    common: dict[str, Any] = {
        **{"m": prod(extents(output)) // columns, "n": columns},
        **{"dtype": types[0], "output": types[-1]},
    }
    numbers = tuple(range(len(func.params)))
    epsilon = layer_epsilon(func)
    if len(inputs) == 3 and reduced == 2 and epsilon is not None:
        if any(extents(param) != [columns] for param in inputs[1:]):
            return None
        return Rows(norm="layer", epsilon=epsilon, scale=types[1], shift=types[2], **common), numbers
    if len(inputs) == 1 and reduced == 2 and "exp" in intrinsics(func):
        return Rows(norm="softmax", scale=NOTHING, shift=NOTHING, **common), numbers
    return None


def layer_epsilon(func: tirx.PrimFunc) -> float | None:
    """The constant that a layer norm adds to the variance, or None without an inverse root."""
    root = intrinsics(func).get("rsqrt")
    value = None if root is None else root.args[0]
    if not isinstance(value, tirx.Add):
        return None
    return next((float(side.value) for side in (value.b, value.a) if isinstance(side, tirx.FloatImm)), None)


def intrinsics(func: tirx.PrimFunc) -> dict[str, Call]:
    """Calls of intrinsics by name."""
    found: dict[str, Call] = {}

    def note(call: Call) -> None:
        found[str(getattr(call.op, "name", "")).rpartition(".")[2]] = call

    tvm_ffi.structural_walk(func.body, (Call, note))
    return found
