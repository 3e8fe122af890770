"""Statements of TIR that kernels of symbolic extents are made of: loops, vectors, tiles, views.

These kernels are written as statements, not scheduled. Schedules of TVM 0.27 leave conditions in the last
iteration of a symbolic loop, which keep its body from being vectorised. Here, a loop over tiles ends with a
tile that overlaps the one before it: both store equal values where they meet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm.sym import Analyzer
from tvm.tirx import AllocBuffer, BufferStore, For, ForKind, IfThenElse, PrimFunc, SeqStmt

from ....codegen.passes import EXACT_ARRAYS
from ....operators.shared.tir import substituted

SCHEDULED = "tirx.is_scheduled"
"""Attribute of functions that TVM does not schedule."""

INDEX = "int64"
"""Data type of sizes and indices, as in functions that Relax calls."""

Emit = Callable[[Any], Any]
"""Makes the body of a loop from its variable."""


def number(value: Any) -> Any:
    """An index as an expression."""
    return tirx.const(value, INDEX) if isinstance(value, int) else value


def simple(value: Any) -> Any:
    """The expression, simplified."""
    return Analyzer().simplify(number(value))


def fixed(value: Any) -> int | None:
    """The value of an expression without variables, else None."""
    if isinstance(value, int):
        return value
    found = simple(value)
    return int(found) if isinstance(found, tirx.IntImm) else None


def product(values: Sequence[Any]) -> Any:
    """Product of extents, 1 of none."""
    result: Any = 1
    for value in values:
        result = value if isinstance(result, int) and result == 1 else result * number(value)
    return simple(result)


def ceildiv(value: Any, by: int) -> Any:
    """Number of tiles of `by` that cover `value`."""
    return simple((number(value) + (by - 1)) // by)


def loop(name: str, extent: Any, body: Emit, kind: ForKind = ForKind.SERIAL) -> Any:
    """A loop; the body alone if it runs once."""
    if fixed(extent) == 1:
        return body(number(0))
    var = tirx.Var(name, INDEX)
    return For(var, number(0), number(extent), kind, body(var))


def unrolled(name: str, extent: int, body: Emit) -> Any:
    """A loop without branches."""
    return loop(name, extent, body, ForKind.UNROLLED)


def vector(extent: int, body: Emit) -> Any:
    """A loop in one vector."""
    return loop("lane", extent, body, ForKind.VECTORIZED)


def parallel(name: str, extent: Any, body: Emit) -> Any:
    """A loop whose iterations threads share."""
    return loop(name, extent, body, ForKind.PARALLEL)


def sequence(*statements: Any) -> Any:
    """Statements in order; None is left out."""
    present = [one for one in statements if one is not None]
    return present[0] if len(present) == 1 else SeqStmt(present)


def overlapping(name: str, extent: Any, width: int, body: Emit, kind: ForKind = ForKind.SERIAL) -> Any:
    """Tiles of `width` that cover an extent of at least `width`; the last one ends where the extent ends."""
    return loop(name, ceildiv(extent, width), lambda tile: body(tile_start(tile, width, extent)), kind)


def tile_start(tile: Any, width: int, extent: Any) -> Any:
    """First element of an overlapping tile."""
    known = fixed(extent)
    if known is not None and known % width == 0:
        return simple(tile * width)
    return simple(tirx.min(tile * width, number(extent) - width))


def in_vectors(
    name: str, extent: Any, widths: Sequence[int], body: Callable[[Any, int], Any], *, once: bool = False
) -> Any:
    """Runs `body(start, width)` over an extent in the widest vectors that fit, and elements if none does.

    An element may be computed twice, with equal results. With `once` it is not: TVM lets an array take the
    place of one that is read for the last time, and elements computed twice would read their own results.
    """
    if once:
        width = min(widths)
        whole = simple(number(extent) // width)
        return sequence(
            loop(name, whole, lambda at: body(at * width, width)),
            loop(name, simple(number(extent) % width), lambda at: body(whole * width + at, 1)),
        )
    *wider, width = sorted({1, *widths}, reverse=True)

    def of(width: int) -> Emit:
        return lambda at: body(at, width)

    result = loop(name, extent, of(width))
    for width in reversed(wider):
        whole = overlapping(name, extent, width, of(width))
        known = fixed(extent)
        if known is None:
            result = IfThenElse(number(extent) >= width, whole, result)
        elif known >= width:
            result = whole
    return result


def split_index(flat: Any, extents: Sequence[Any]) -> list[Any]:
    """Indices of axes from one index over all of them."""
    indices: list[Any] = []
    for position, extent in enumerate(extents):
        inner = product(extents[position + 1 :])
        at = flat if fixed(inner) == 1 else flat // inner
        indices.append(simple(at if position == 0 else at % number(extent)))
    return indices


def flat_index(indices: Sequence[Any], extents: Sequence[Any]) -> Any:
    """One index over axes of these extents."""
    flat: Any = number(0)
    for at, extent in zip(indices, extents, strict=True):
        flat = flat * extent + at
    return simple(flat)


def local(shape: Sequence[int], dtype: str, name: str) -> Any:
    """Array on the stack of a thread, or in its registers."""
    return tirx.decl_buffer([number(extent) for extent in shape], dtype, name, scope="local")


def workspace(shape: Sequence[Any], dtype: str, name: str) -> Any:
    """Array in memory."""
    return tirx.decl_buffer([number(extent) for extent in shape], dtype, name, scope="global")


def allocated(buffers: Sequence[Any], body: Any) -> Any:
    """The statement with its arrays."""
    return sequence(*map(AllocBuffer, buffers), body)


def store(buffer: Any, value: Any, indices: Sequence[Any]) -> Any:
    """Store of one element, or of one lane of a vector."""
    return BufferStore(buffer, value, [number(index) for index in indices])


def with_values(node: Any, values: Mapping[Any, Any]) -> Any:
    """An expression or statement with expressions in place of variables."""
    return substituted(node, {var: number(value) for var, value in values.items()})


def with_loads(node: Any, change: Callable[[TensorLoad], Any]) -> Any:
    """An expression with `change` of each load in it; loads inside of indices are changed first."""
    return tvm_ffi.structural_map(node, (TensorLoad, change))


def in_type(value: Any, dtype: str) -> Any:
    """A value, converted if it has another data type."""
    return value if str(value.ty.dtype) == dtype else tirx.Cast(dtype, value)


def loads_of(node: Any) -> list[TensorLoad]:
    """All loads of an expression."""
    found: list[TensorLoad] = []
    tvm_ffi.structural_walk(node, (TensorLoad, found.append))
    return found


def values_of(axes: Sequence[Any], values: Sequence[Any]) -> dict[Any, Any]:
    """Values by variable of axes."""
    return {axis.var: value for axis, value in zip(axes, values, strict=True)}


def scheduled_function(params: Sequence[Any], body: Any) -> PrimFunc:
    """A function that TVM neither schedules nor shrinks the arrays of."""
    # TVM looks for reshapes in functions of Relax, and expects a block around their bodies.
    func = PrimFunc(list(params), SBlockRealize([], True, SBlock([], [], [], "root", body)))
    return func.with_attrs({SCHEDULED: True, "s_tir": True, EXACT_ARRAYS: True})


def is_scheduled(func: PrimFunc) -> bool:
    """Whether a function is one of `scheduled_function`."""
    return bool((func.attrs or {}).get(SCHEDULED, False))


_PLACES = 64
"""Integers that a kernel keeps at most."""


class Places:
    """Integers that a kernel computes once, in registers: TVM puts the values of variables wherever those are
    read, which makes long code of the divisions by symbolic extents."""

    def __init__(self) -> None:
        self.array = local([_PLACES], INDEX, "places")
        self._count = 0

    def kept(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Statements that compute the values, and the values."""
        statements, results = [], []
        for value in values:
            if isinstance(value, (int, tirx.Var)) or fixed(value) is not None:
                results.append(number(value))
                continue
            statements.append(store(self.array, value, [self._count]))
            results.append(tirx.BufferLoad(self.array, [number(self._count)]))
            self._count += 1
        return statements, results
