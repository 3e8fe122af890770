"""Reads the loops and accesses of a task from its TIR, the only step of drafting that needs the module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import tvm
import tvm_ffi
from tvm.ir import Call
from tvm.ir.expr import TensorLoad
from tvm.s_tir.stmt import SBlockRealize
from tvm.tirx import EQ, Add, And, Cast, FloorDiv, FloorMod, For, IntImm, Mul, Select, Sub, Var

from ..task import count_flops
from ..tvm_compat import IF_THEN_ELSE, entry_function, layout_free
from .structure import Access, Block, Guard, TaskStructure, Term

_Sum = tuple[Term, ...]


def read_structure(mod: tvm.IRModule) -> TaskStructure:
    """Structure of the unscheduled entry function; see `tvm_compat.entry_function`."""
    blocks: list[Block] = []
    func = entry_function(mod)
    packed = frozenset(func.params[index] for index in layout_free(func))
    _collect(func.body, (), packed, blocks)
    return TaskStructure(tuple(_with_guards_of_inputs(blocks)), count_flops(mod))


def _collect(node: object, loops: tuple[For, ...], packed: frozenset[Var], found: list[Block]) -> None:
    """Append the innermost blocks below a node to `found`."""

    def enter_loop(loop: For) -> tvm_ffi.WalkResult:
        _collect(loop.body, (*loops, loop), packed, found)
        return tvm_ffi.WalkResult.SKIP

    def enter_block(realize: SBlockRealize) -> tvm_ffi.WalkResult:
        if realize.block.iter_vars:
            found.append(_block(realize, loops, packed))
        else:  # the root block
            _collect(realize.block.body, loops, packed, found)
        return tvm_ffi.WalkResult.SKIP

    tvm_ffi.structural_walk(node, [(For, enter_loop), (SBlockRealize, enter_block)], order="pre")


def _block(realize: SBlockRealize, loops: tuple[For, ...], packed: frozenset[Var]) -> Block:
    """Block whose indices are written in terms of the loops around it.

    A block without a loop computes a scalar. It counts as a loop with one iteration.
    """
    block = realize.block
    terms: dict[Var, _Sum | None] = {
        loop.loop_var: (Term(1, ((axis, 1),)),) for axis, loop in enumerate(loops)
    }
    reduction = [False] * len(loops)
    for iterator, value in zip(block.iter_vars, realize.iter_values, strict=True):
        terms[iterator.var] = _terms(value, terms)
        if iterator.iter_type == tvm.tirx.IterVar.CommReduce:
            for term in terms[iterator.var] or ():
                for axis, _ in term.axes:
                    reduction[axis] = True
    return Block(
        name=block.name_hint,
        extents=tuple(int(getattr(loop.extent, "value", 1)) for loop in loops) or (1,),
        reduction=tuple(reduction) or (False,),
        writes=tuple(_access(region, terms, packed) for region in block.writes),
        reads=tuple(_access(region, terms, packed) for region in block.reads),
        guards=tuple(dict.fromkeys(_guards(block.body, terms))),
        zero_initialised=block.init is not None and _is_zero(getattr(block.init, "value", None)),
        copies=block.init is None and _is_copied(getattr(block.body, "value", None)),
    )


def _is_copied(value: object) -> bool:
    """Whether a stored value is an element of a buffer, or else a constant."""
    if isinstance(value, Call) and getattr(value.op, "name", "") == IF_THEN_ELSE:
        value = value.args[1]
    return isinstance(value, TensorLoad)


def _guards(body: object, terms: Mapping[Var, _Sum | None]) -> Iterator[Guard]:
    """Conditions on remainders outside of which a value in the body is zero."""
    conditions: list[object] = []

    def of_call(call: Call) -> tvm_ffi.WalkResult:
        if getattr(call.op, "name", "") == IF_THEN_ELSE and _is_zero(call.args[2]):
            conditions.append(call.args[0])
        return tvm_ffi.WalkResult.ADVANCE

    def of_select(select: Select) -> tvm_ffi.WalkResult:
        if _is_zero(select.false_value):
            conditions.append(select.condition)
        return tvm_ffi.WalkResult.ADVANCE

    tvm_ffi.structural_walk(body, [(Call, of_call), (Select, of_select)], order="pre")
    while conditions:
        condition = conditions.pop(0)
        if isinstance(condition, And):
            conditions[:0] = [condition.a, condition.b]
        elif isinstance(condition, EQ) and isinstance(condition.a, FloorMod):
            rest = _terms(condition.a, terms)
            if rest is not None and len(rest) == 1 and rest[0].divisor == 1 and rest[0].modulus:
                yield Guard(rest[0].axes, rest[0].modulus)


def _is_zero(value: object) -> bool:
    return getattr(value, "value", None) == 0


def _with_guards_of_inputs(blocks: Sequence[Block]) -> list[Block]:
    """Add to each block the guards that it inherits from its inputs once they are inlined."""
    found: list[Block] = []
    for block in blocks:
        writers = {write.buffer: other for other in found for write in other.writes}
        inherited = [
            guard
            for read in block.reads
            if (writer := writers.get(read.buffer)) is not None
            for guard in _through(writer, read)
        ]
        found.append(replace(block, guards=tuple(dict.fromkeys([*block.guards, *inherited]))))
    return found


def _through(writer: Block, read: Access) -> Iterator[Guard]:
    """Guards of a block in terms of the loops of a block that reads its output."""
    written = [_only_axis(terms) for terms in writer.writes[0].indices]
    for guard in writer.guards:
        terms: _Sum | None = ()
        for axis, coefficient in guard.axes:
            index = read.indices[written.index(axis)] if axis in written else None
            if terms is None or index is None or any(term.divisor != 1 or term.modulus for term in index):
                terms = None
            else:
                terms += tuple(_scaled(term, coefficient) for term in index)
        merged = _merged(terms or ())
        if merged:
            axes = tuple((axis, c * merged[0].coefficient) for axis, c in merged[0].axes)
            yield Guard(axes, guard.modulus, (writer.name, *guard.inlined_blocks))


def _only_axis(terms: _Sum | None) -> int | None:
    """Axis of an index that is a single loop variable, None for any other index."""
    if terms is None or len(terms) != 1:
        return None
    plain = len(terms[0].axes) == 1 and terms[0] == Term(1, ((terms[0].axes[0][0], 1),))
    return terms[0].axes[0][0] if plain else None


def _access(region: object, terms: Mapping[Var, _Sum | None], packed: frozenset[Var]) -> Access:
    buffer = region.source  # type: ignore[attr-defined]
    ranges = region.region  # type: ignore[attr-defined]
    return Access(
        buffer=buffer.name,
        shape=tuple(int(getattr(extent, "value", 1)) for extent in buffer.shape),
        element_bytes=tvm.DataType(str(buffer.dtype)).bits / 8,
        indices=tuple(_terms(part.min, terms) for part in ranges),
        widths=tuple(int(getattr(part.extent, "value", 1)) for part in ranges),
        packed=buffer in packed,
        offsets=tuple(_constant(part.min) for part in ranges),
    )


def _constant(index: object) -> int:
    """Value of an index where all loop variables are 0; 0 for an index of another form than a sum."""
    if isinstance(index, IntImm):
        return int(index.value)
    if isinstance(index, Cast):
        return _constant(index.value)
    if isinstance(index, Add):
        return _constant(index.a) + _constant(index.b)
    if isinstance(index, Sub):
        return _constant(index.a) - _constant(index.b)
    if isinstance(index, Mul):
        return _constant(index.a) * _constant(index.b)
    if isinstance(index, FloorDiv | FloorMod):
        left, right = _constant(index.a), _constant(index.b)
        return 0 if right == 0 else left // right if isinstance(index, FloorDiv) else left % right
    return 0


def _terms(index: object, of_variable: Mapping[Var, _Sum | None]) -> _Sum | None:
    """Index as a sum of terms, without its constant; None if it has another form."""
    if isinstance(index, IntImm):
        return ()
    if isinstance(index, Var):
        return of_variable.get(index)
    if isinstance(index, Cast):
        return _terms(index.value, of_variable)
    if not isinstance(index, (Add, Sub, Mul, FloorDiv, FloorMod)):
        return None
    left, right = _terms(index.a, of_variable), _terms(index.b, of_variable)
    if left is None or right is None:
        return None
    if isinstance(index, Add):
        return _merged(left + right)
    if isinstance(index, Sub):
        return _merged(left + tuple(_scaled(term, -1) for term in right))
    # TVM moves constants to the right operand.
    factor = getattr(index.b, "value", None)
    if not isinstance(factor, int) or factor == 0:
        return None
    if isinstance(index, Mul):
        return tuple(_scaled(term, factor) for term in left)
    if not left:
        return ()
    if len(left) != 1 or left[0].modulus or factor < 0:
        return None
    if left[0].divisor != 1:
        (term,) = left
        is_digit = isinstance(index, FloorMod) and term.coefficient == 1  # (x // d) % m
        return (Term(1, term.axes, term.divisor, factor),) if is_digit else None
    axes = tuple((axis, left[0].coefficient * c) for axis, c in left[0].axes)
    if isinstance(index, FloorDiv):
        return (Term(1, axes, divisor=factor),)
    return (Term(1, axes, modulus=factor),)


def _scaled(term: Term, factor: int) -> Term:
    return Term(term.coefficient * factor, term.axes, term.divisor, term.modulus)


def _merged(terms: _Sum) -> _Sum:
    """Add up the plain terms, so that a quotient or remainder of a sum stays one term."""
    plain: dict[int, int] = {}
    for term in terms:
        if term.divisor == 1 and not term.modulus:
            for axis, c in term.axes:
                plain[axis] = plain.get(axis, 0) + term.coefficient * c
    rest = tuple(term for term in terms if term.divisor != 1 or term.modulus)
    together = tuple((axis, c) for axis, c in sorted(plain.items()) if c)
    return ((Term(1, together), *rest)) if together else rest
