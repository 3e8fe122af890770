"""Static analysis of a task's TIR: its operators in order."""

from __future__ import annotations

from collections.abc import Iterator

import tvm_ffi
from tvm.ir import Call
from tvm.s_tir.analysis import find_anchor_sblock
from tvm.s_tir.stmt import SBlock
from tvm.tirx import Add, BufferStore, Cast, Div, Max, Min, Mul, Select, Sub

from ..task import Task
from ..tvm_compat import entry_function

_ARITHMETIC = {Add: "add", Sub: "sub", Mul: "mul", Div: "div", Max: "max", Min: "min"}


def operator_sequence(task: Task) -> tuple[str, ...]:
    """Operators of a task in the order in which they run, without shapes.

    The core operator has the name of the task's operator type, any other that of the arithmetic of its
    values, such as "add" for a bias. An operator that only moves values is "copy", or "select" if a
    condition picks them, as in a padding.
    """
    blocks: list[SBlock] = []
    tvm_ffi.structural_walk(entry_function(task.mod).body, (SBlock, blocks.append))
    anchor = find_anchor_sblock(task.mod)
    return tuple(
        task.operator if anchor is not None and block.same_as(anchor) else _arithmetic(block)
        for block in blocks
        if block.iter_vars
    )


def _arithmetic(block: SBlock) -> str:
    """Kinds of operations on the values that a block stores, in the order of their names."""
    stores: list[BufferStore] = []
    tvm_ffi.structural_walk(block.body, (BufferStore, stores.append))
    found = {kind for store in stores for kind in _kinds(store.value)}
    return "+".join(sorted(found)) or "copy"


def _kinds(value: object) -> Iterator[str]:
    """Operations of an expression, without those of its indices and conditions."""
    if isinstance(value, Call):
        name = str(getattr(value.op, "name", "call")).rpartition(".")[2]
        chooses = name == "if_then_else"
        yield "select" if chooses else name
        for argument in value.args[1:] if chooses else value.args:
            yield from _kinds(argument)
    elif isinstance(value, Select):
        yield "select"
        yield from _kinds(value.true_value)
        yield from _kinds(value.false_value)
    elif isinstance(value, Cast):
        yield "cast"
        yield from _kinds(value.value)
    elif type(value) in _ARITHMETIC:
        yield _ARITHMETIC[type(value)]
        yield from _kinds(value.a)  # type: ignore[attr-defined]
        yield from _kinds(value.b)  # type: ignore[attr-defined]
