"""Lowered modules as bytes: the module as TVM's JSON without its constants, and the constants' values.

TVM's JSON of a constant is text, which takes a hundred times as long to read. Nothing of the format executes
code.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import tvm
from numpy.typing import NDArray

from ...codegen.lifted_constants import with_bound_constants, with_lifted_constants
from ...tvm_compat import module_from_json


@dataclass(frozen=True)
class StoredModule:
    """A module of `to_relax`."""

    relax_mod: tvm.IRModule
    lowering_s: float
    """Seconds that `to_relax` took."""


def parts_of(stored: StoredModule) -> list[bytes | memoryview]:
    """The parts of a file, in order; constants are views of the module's memory."""
    bare, constants = with_lifted_constants(stored.relax_mod)
    header = {
        "lowering_s": stored.lowering_s,
        "constants": [(str(one.dtype), [int(extent) for extent in one.shape]) for one in constants],
        "module": tvm.ir.save_json(bare),
    }
    return [json.dumps(header).encode() + b"\n", *map(_as_bytes, constants)]


def _as_bytes(constant: tvm.runtime.Tensor) -> memoryview:
    # TVM's `numpy()` copies.
    return torch.from_dlpack(constant).reshape(-1).view(torch.uint8).numpy().data


def module_of(content: memoryview) -> StoredModule:
    """Inverse of `parts_of`."""
    line = re.match(rb".*\n", content)
    if line is None:
        raise ValueError("no header")
    header, start = json.loads(line[0]), line.end()
    bare = module_from_json(header["module"])
    constants = list(_constants(header["constants"], content[start:]))
    return StoredModule(with_bound_constants(bare, constants), float(header["lowering_s"]))


def _constants(kinds: list[tuple[str, list[int]]], data: memoryview) -> Iterator[NDArray[Any]]:
    """The constants of these data types and shapes."""
    start = 0
    for name, shape in kinds:
        dtype, count = np.dtype(name), math.prod(shape)
        yield np.frombuffer(data, dtype, count, start).reshape(shape)
        start += count * dtype.itemsize
