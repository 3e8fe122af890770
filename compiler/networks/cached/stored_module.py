"""Lowered modules as bytes: the module as TVM's JSON without its constants, and the constants' values.

TVM's JSON of a constant is text, which takes a hundred times as long to read. Nothing of the format executes
code.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ...tvm_compat import module_from_json

_MAIN = "main"


@dataclass(frozen=True)
class StoredModule:
    """A module of `to_relax`."""

    relax_mod: tvm.IRModule
    lowering_s: float
    """Seconds that `to_relax` took."""


def parts_of(stored: StoredModule) -> list[bytes | memoryview]:
    """The parts of a file, in order; constants are views of the module's memory."""
    mod = stored.relax_mod
    lift = _Lift(mod)
    main = mod[_MAIN]
    body = lift.visit_expr(main.body)
    bare = tvm.IRModule(mod.functions, attrs=mod.attrs)
    bare[_MAIN] = relax.Function([*main.params, *lift.params], body, main.ret_ty, main.is_pure, main.attrs)
    arrays = [constant.value.numpy() for constant in lift.constants]
    header = {
        "lowering_s": stored.lowering_s,
        "constants": [(str(array.dtype), array.shape) for array in arrays],
        "module": tvm.ir.save_json(bare),
    }
    return [json.dumps(header).encode() + b"\n", *map(_as_bytes, arrays)]


def _as_bytes(array: NDArray[Any]) -> memoryview:
    return memoryview(array.reshape(-1).view(np.uint8))


def module_of(content: memoryview) -> StoredModule:
    """Inverse of `parts_of`."""
    with io.BytesIO(content) as file:
        header = json.loads(file.readline())
        start = file.tell()
    bare = module_from_json(header["module"])
    values = list(_constants(header["constants"], content[start:]))
    params = bare[_MAIN].params[-len(values) :] if values else []
    bind = relax.transform.BindParams(_MAIN, dict(zip(params, values, strict=True)))
    return StoredModule(bind(bare), float(header["lowering_s"]))


def _constants(kinds: list[tuple[str, list[int]]], data: memoryview) -> Iterator[NDArray[Any]]:
    """The constants of these data types and shapes."""
    start = 0
    for name, shape in kinds:
        dtype, count = np.dtype(name), math.prod(shape)
        yield np.frombuffer(data, dtype, count, start).reshape(shape)
        start += count * dtype.itemsize


@mutator
class _Lift(PyExprMutator):
    """Replaces constants by parameters."""

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self.constants: list[tvm.ir.GenericConst] = []
        self.params: list[relax.Var] = []

    def visit_generic_const_(self, constant: tvm.ir.GenericConst) -> relax.Expr:
        """The parameter in place of a tensor; other constants stay."""
        if not isinstance(constant.ty, relax.TensorType):
            return constant
        for known, param in zip(self.constants, self.params, strict=True):
            if known.same_as(constant):
                return param
        self.constants.append(constant)
        self.params.append(relax.Var(f"constant_{len(self.params)}", constant.ty))
        return self.params[-1]
