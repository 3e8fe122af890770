"""TIR functions whose arrays are stored in a type of 16 bits and whose arithmetic stays in float32."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, PrimType
from tvm.ir.expr import TensorLoad
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm.tirx import BufferStore, IterVar, PrimFunc
from tvm.tirx.buffer import is_buffer_var

from ...templates.cpu.contraction import is_product
from ...types import WIDE

_POINTERS = ("address_of", "tvm_access_ptr", "call_extern", "call_pure_extern", "tvm_call_packed")
"""Calls that pass arrays on in the data type that they have."""


@dataclass(frozen=True)
class ArrayUse:
    """Use of its arrays by one function."""

    operands: frozenset[int]
    """Parameters that are factors of a sum of products, directly or moved before."""
    multiplies: bool
    """Whether it computes a sum of products: a product of matrices or a convolution."""
    moves: bool
    """Whether it computes nothing, such as a transpose or a padding."""


def array_use(func: PrimFunc) -> ArrayUse | None:
    """Use of float32 arrays; None for a function whose data types cannot change."""
    blocks = _blocks(func)
    if blocks is None:
        return None
    factors = {region.source for block in blocks if _multiplies(block) for region in block.reads}
    for block in reversed(blocks):  # a value that is moved into a factor is a factor
        if block.writes[0].source in factors and _moves(block):
            factors.update(region.source for region in block.reads)
    operands = {index for index, array in enumerate(func.params) if array in factors and _is_wide(array)}
    multiplies = any(map(_multiplies, blocks))
    return ArrayUse(frozenset(operands), multiplies, all(map(_moves, blocks)))


def stored_narrow(func: PrimFunc, narrow: Collection[int], dtype: str, product_sums: str = WIDE) -> PrimFunc:
    """The function with these float32 parameters in `dtype`, and with factors of its products in `dtype`.

    Loads are converted to float32 and stores rounded. Sums stay float32 until they are complete, unless
    `product_sums` is `dtype`: products are then multiplied and added in it. A value that is only moved keeps
    its bits. `array_use` must know the function.
    """
    blocks = _blocks(func)
    assert blocks is not None
    reduced = {block.writes[0].source for block in blocks if block.init is not None}
    factors = {region.source for block in blocks if _multiplies(block) for region in block.reads}
    of_moves = {block.writes[0].source for block in blocks if _moves(block)}
    if product_sums == dtype:
        multiplied = {block.writes[0].source for block in blocks if _multiplies(block)}
    else:
        multiplied = set()
    reduced -= multiplied
    params, sums, inner = list(func.params), {}, {}
    for index in narrow:
        array = func.params[index]
        params[index] = _like(array, dtype)
        if array in reduced:
            sums[array] = params[index]
        else:
            inner[array] = params[index]
    given = set(func.params)
    whole_moves = of_moves if all(map(_moves, blocks)) else set()
    for array in {block.writes[0].source for block in blocks} - given - reduced:
        if _is_wide(array) and array in factors | whole_moves | multiplied:
            inner[array] = _like(array, dtype)
    inner.update({array: _like(array, WIDE) for array in sums})
    arithmetic = {inner[array] for array in multiplied if array in inner}
    root = _with_arrays(func.body.block, inner, arithmetic)
    rounding = [_rounding(inner[array], rounded) for array, rounded in sums.items()]
    body = SBlock(
        root.iter_vars,
        root.reads,
        root.writes,
        root.name_hint,
        tirx.SeqStmt([root.body, *rounding]) if rounding else root.body,
        root.init,
        [*root.alloc_buffers, *(inner[array] for array in sums)],
        root.match_buffers,
        root.annotations,
    )
    realized = SBlockRealize(func.body.iter_values, func.body.predicate, body)
    return PrimFunc(params, realized, ret_type=func.ret_type, attrs=func.attrs)


def _blocks(func: PrimFunc) -> list[SBlock] | None:
    """Blocks of a function but for the root; None where its arrays are used outside of loads and stores."""
    known = all(is_buffer_var(param) or isinstance(param.ty, PrimType) for param in func.params)
    if not isinstance(func.body, SBlockRealize) or not known:
        return None
    blocks: list[SBlock] = []
    calls: list[str] = []
    stores: list[BufferStore] = []
    callbacks = [
        (SBlock, blocks.append),
        (BufferStore, stores.append),
        (Call, lambda call: calls.append(_operator(call))),
    ]
    tvm_ffi.structural_walk(func.body, callbacks)
    found = [block for block in blocks if block.iter_vars]
    own = sum(1 if block.init is None else 2 for block in found)
    plain = all(len(block.writes) == 1 and not block.match_buffers for block in found)
    known = all(isinstance(block.body, BufferStore) for block in found)
    if not found or not plain or not known or len(stores) != own or not set(calls).isdisjoint(_POINTERS):
        return None
    return found


def _multiplies(block: SBlock) -> bool:
    """Whether a block sums products of two float32 arrays."""
    if block.init is None or len(block.reads) != 2 or not is_product(block):
        return False
    left, right = (region.source for region in block.reads)
    return not left.same_as(right) and _is_wide(left) and _is_wide(right)


def _moves(block: SBlock) -> bool:
    reduces = any(iterator.iter_type == IterVar.CommReduce for iterator in block.iter_vars)
    return not reduces and block.init is None and _is_move(block.body.value)


def _is_move(value: Any) -> bool:
    """Whether an expression is an element, or one of several by a condition, zeros included."""
    if _is_choice(value):
        return all(map(_is_move, _choices(value)))
    return isinstance(value, TensorLoad) or getattr(value, "value", None) == 0


def _is_choice(value: Any) -> bool:
    if isinstance(value, tirx.Select):
        return True
    return isinstance(value, Call) and _operator(value) == "if_then_else"


def _operator(call: Call) -> str:
    """Name of an operator without the name of its dialect."""
    return str(getattr(call.op, "name", "")).rpartition(".")[2]


def _choices(value: Any) -> list[Any]:
    return [value.true_value, value.false_value] if isinstance(value, tirx.Select) else list(value.args[1:])


def _is_wide(array: Any) -> bool:
    return str(array.dtype) == WIDE


def _like(array: tirx.Buffer, dtype: str) -> tirx.Buffer:
    # TVM renames the symbols of a function without those in a layout.
    fixed = all(isinstance(extent, tirx.IntImm) for extent in array.shape)
    layout = {} if fixed else {"layout": None}
    return tirx.decl_buffer(array.shape, dtype, array.name, **layout)


def _with_arrays(
    root: SBlock, arrays: Mapping[tirx.Buffer, tirx.Buffer], arithmetic: Collection[tirx.Buffer]
) -> SBlock:
    """The block with other arrays, whose data types may differ.

    Values that are stored to `arithmetic` are computed in its data type.
    """
    changed = set(arrays.values())

    def load(value: TensorLoad) -> Any:
        if value.source not in changed:
            return value
        loaded = tirx.BufferLoad(value.source, list(value.indices))
        return loaded if _is_wide(value.source) else tirx.Cast(WIDE, loaded)

    def store(statement: BufferStore) -> BufferStore:
        if statement.buffer not in changed or _is_wide(statement.buffer):
            return statement
        stored = _computed if statement.buffer in arithmetic else _rounded
        value = stored(statement.value, str(statement.buffer.dtype))
        return BufferStore(statement.buffer, value, list(statement.indices))

    return tvm_ffi.structural_map(
        root,
        [(TensorLoad, load), (BufferStore, store), (tirx.Buffer, lambda array: arrays.get(array, array))],
    )


def _rounded(value: Any, dtype: str) -> Any:
    """A float32 expression in a narrower type; an element of this type keeps its bits."""
    moved = _moved(value, dtype)
    return tirx.Cast(dtype, value) if moved is None else moved


def _computed(value: Any, dtype: str) -> Any:
    """A float32 sum of products in a narrower type, with arithmetic in this type."""
    if isinstance(value, tirx.Add | tirx.Mul):
        return type(value)(_computed(value.a, dtype), _computed(value.b, dtype))
    return _rounded(value, dtype)


def _moved(value: Any, dtype: str) -> Any:
    """An element of `dtype`, a zero, or a choice between such values, without conversion; None for others."""
    if isinstance(value, tirx.Cast) and isinstance(value.value, TensorLoad):
        return value.value if str(value.value.ty.dtype) == dtype else None
    if getattr(value, "value", None) == 0:
        return tirx.const(0, dtype)
    if not _is_choice(value):
        return None
    first, second = (_moved(choice, dtype) for choice in _choices(value))
    if first is None or second is None:
        return None
    if isinstance(value, tirx.Select):
        return tirx.Select(value.condition, first, second)
    return tirx.if_then_else(value.args[0], first, second)


def _rounding(wide: tirx.Buffer, narrow: tirx.Buffer) -> Any:
    """Loops that round all elements of an array."""
    shape = [extent.astype("int64") for extent in wide.shape]
    axes = [tirx.Var(f"v_ax{number}", "int64") for number in range(len(shape))]
    loops = [tirx.Var(f"ax{number}", "int64") for number in range(len(shape))]
    zero, unit = tirx.const(0, "int64"), tirx.const(1, "int64")
    ranges = [
        tirx.IterVar(tvm.ir.Range.from_min_extent(zero, extent), axis, IterVar.DataPar)
        for extent, axis in zip(shape, axes, strict=True)
    ]
    one = [tvm.ir.Range.from_min_extent(axis, unit) for axis in axes]
    block = SBlock(
        ranges,
        [tirx.BufferRegion(wide, one)],
        [tirx.BufferRegion(narrow, one)],
        "T_cast",
        BufferStore(narrow, tirx.Cast(str(narrow.dtype), tirx.BufferLoad(wide, axes)), axes),
    )
    statement: Any = SBlockRealize(loops, True, block)
    for loop, extent in reversed(list(zip(loops, shape, strict=True))):
        statement = tirx.For(loop, zero, extent, tirx.ForKind.SERIAL, statement)
    return statement
