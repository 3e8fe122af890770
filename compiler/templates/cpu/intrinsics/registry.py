"""Registration of tensor intrinsics by the names that traces refer to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from tvm.s_tir import TensorIntrin

from ....instruction_sets import INSTRUCTION
from ....tvm_compat import load_tensor_intrinsics, tensor_core_way
from .dot_intrinsics import dot_description, dot_implementation
from .tile_intrinsics import PARTS, tile_intrinsic

_NAME = re.compile(r"foretune\.(\w+)(?:\.(\w+)\.(\d+)x(\d+)s(\d+)(?:c(\d+))?)?")


def register_named(names: Iterable[str]) -> None:
    """Registers the intrinsics among `names` that are templates' and not registered yet; ignores others."""
    for name in names:
        _register(name)


def register_intrinsics(text: str) -> None:
    """Registers the intrinsics that a text names, such as a trace or the file of a tuning database.

    They are templates' and those of tensor cores, of which TVM has some after an import.
    A process that applies schedules of templates with stock TVM calls it once before it does so.
    """
    register_named({match.group() for match in _NAME.finditer(text)})
    if tensor_core_way(text):
        load_tensor_intrinsics()


@cache
def _register(name: str) -> None:
    match = _NAME.fullmatch(name)
    instruction = INSTRUCTION.get(match.group(1)) if match else None
    if match is None or instruction is None:
        return
    _, part, *shape = match.groups()
    if part is None and not instruction.tiles:
        pair = dot_description(instruction), dot_implementation(instruction)
    elif part in PARTS and instruction.tiles:
        pair = tile_intrinsic(instruction, part, *(int(number or 0) for number in shape))
    else:
        return
    TensorIntrin.register(name, *pair, override=True)
