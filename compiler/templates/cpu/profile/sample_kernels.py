"""Sample programs of the light profiler: a register tile of each kind, whose sizes are arguments.

They multiply as the templates do, so that one of them stands for all tasks that use its register tile
(Bolt, section 3.2.2: sample programs that are reusable across models and workloads by different inputs).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as T

from ....instruction_sets import Instruction
from ....tvm_compat import IMPORT_LLVM, as_task_module
from ....types import data_type
from ..intrinsics.dot_intrinsics import accumulators_and_operands, multiply_add_ir
from ..intrinsics.tile_intrinsics import (
    DATA,
    MOST_ACROSS,
    WEIGHTS,
    configure_function,
    configure_ir,
)

LINE = 64
"""Bytes of a vector of weights, and of a row of a tile; vectors of 8 lanes have half."""

_TILE_BYTES = 16 * LINE
_VECTOR_ROWS = (1, 2, 4, 6, 8, 11, 14, 20, 30)
_TILE_ROWS = (2, 8, 16)


@dataclass(frozen=True)
class RegisterTile:
    """Sums that stay in registers: a sample program computes them again and again."""

    instruction: Instruction
    rows: int
    """Rows, or rows of one tile of AMX."""
    vectors: int
    """Vectors of each row, or tiles of AMX along the columns."""
    row_tiles: int = 1
    """Tiles of AMX along the rows."""

    @property
    def name(self) -> str:
        """Name in a profile, and of the function."""
        return f"{self.instruction.name}_{self.row_tiles}x{self.rows}x{self.vectors}"

    @property
    def data_bytes(self) -> int:
        """Bytes of data that a step reads."""
        return self.row_tiles * self.rows * (LINE if self.instruction.tiles else self.instruction.word_bytes)

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights that a step reads."""
        return self.vectors * (
            _TILE_BYTES if self.instruction.tiles else self.instruction.word_bytes * self.instruction.lanes
        )


def sample_tiles(instruction: Instruction) -> list[RegisterTile]:
    """Register tiles that are measured; the rows between them are interpolated.

    The rows of vectors reach the largest tile that the registers hold, as templates do.
    """
    if instruction.tiles:
        across = range(1, MOST_ACROSS + 1)
        return [RegisterTile(instruction, r, v, t) for t in across for v in across for r in _TILE_ROWS]
    found = []
    for vectors in range(1, 5):
        most = instruction.most_rows(vectors)
        rows = [*(rows for rows in _VECTOR_ROWS if rows < most), min(most, _VECTOR_ROWS[-1])]
        found += [RegisterTile(instruction, count, vectors) for count in rows]
    return found


def sample_module(tiles: Sequence[RegisterTile]) -> tvm.IRModule:
    """Functions by the names of the tiles: (data, weights, sums: uint8 [n]; pitch, steps, repeats: int64).

    `pitch` is the bytes from one row of the data to the next. A call computes one register tile over `steps`
    steps of the reduction, `repeats` times.
    """
    functions = {}
    for tile in tiles:
        with IRBuilder() as builder, T.prim_func(s_tir=True):
            T.func_name(tile.name)
            sizes = [tirx.Var(f"n{number}", "int64") for number in range(3)]
            memory = [
                T.arg(name, T.buffer((size,), "uint8")) for name, size in zip("ABC", sizes, strict=True)
            ]
            numbers = [T.arg(name, tirx.Var(name, "int64")) for name in ("pitch", "steps", "repeats")]
            with T.attr(tirx.const(0, "int32"), IMPORT_LLVM, _llvm_ir(tile)):
                pointers = [buffer.access_ptr("rw") for buffer in memory]
                T.evaluate(tirx.call_extern("int32", f"sample_{tile.name}", *pointers, *numbers))
        functions[tile.name] = as_task_module(builder.get())["main"].with_attr("global_symbol", tile.name)
    return tvm.IRModule(functions)


def _llvm_ir(tile: RegisterTile) -> str:
    """Two loops: steps of the reduction within repeats."""
    body = _tiles(tile) if tile.instruction.tiles else _vectors(tile)
    return f"""{body.declared}
define i32 @sample_{tile.name}(ptr %a, ptr %b, ptr %c, i64 %pitch, i64 %steps, i64 %repeats) {{
entry:
  br label %tile
tile:
  %n = phi i64 [ 0, %entry ], [ %n1, %done ]
{body.before}  br label %step
step:
  %k = phi i64 [ 0, %tile ], [ %k1, %step ]
{body.step}  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, %steps
  br i1 %more, label %step, label %done
done:
{body.after}  %n1 = add i64 %n, 1
  %again = icmp ult i64 %n1, %repeats
  br i1 %again, label %tile, label %end
end:
  ret i32 0
}}
"""


@dataclass(frozen=True)
class _Body:
    declared: str
    before: str
    step: str
    after: str


def _vectors(tile: RegisterTile) -> _Body:
    """The word of each row is spread over a vector, and multiplied with each vector of weights."""
    sums, operand = accumulators_and_operands(tile.instruction)
    declared, multiply = multiply_add_ir(tile.instruction)
    lanes, fused, word_bytes = tile.instruction.lanes, tile.instruction.step == 1, tile.instruction.word_bytes
    word = data_type(tile.instruction.data).llvm if fused else f"i{8 * word_bytes}"
    spread, sum_bytes = f"<{lanes} x {word}>", lanes * data_type(tile.instruction.accumulator).bytes
    each = [(row, vector) for row in range(tile.rows) for vector in range(tile.vectors)]
    lines = [f"%s{r}_{v} = phi {sums} [ zeroinitializer, %tile ], [ %t{r}_{v}, %step ]" for r, v in each]
    lines += [f"%bk = mul i64 %k, {tile.weight_bytes}", f"%ak = mul i64 %k, {word_bytes}"]
    for v in range(tile.vectors):
        at = v * tile.weight_bytes // tile.vectors
        lines += [f"%bi{v} = add i64 %bk, {at}", f"%bp{v} = getelementptr i8, ptr %b, i64 %bi{v}"]
        lines.append(f"%y{v} = load {operand}, ptr %bp{v}, align 1")
    for r in range(tile.rows):
        lines += [f"%am{r} = mul i64 %pitch, {r}", f"%ai{r} = add i64 %am{r}, %ak"]
        lines += [f"%ap{r} = getelementptr i8, ptr %a, i64 %ai{r}"]
        lines += [f"%w{r} = load {word}, ptr %ap{r}, align 1"]
        lines += [f"%i{r} = insertelement {spread} poison, {word} %w{r}, i64 0"]
        lines += [
            f"%x{r}_ = shufflevector {spread} %i{r}, {spread} poison, <{lanes} x i32> zeroinitializer",
            f"%x{r} = bitcast {spread} %x{r}_ to {operand}",
        ]
        # A row's products follow its spread, as in templates: else LLVM keeps all rows' spreads in registers.
        for v in range(tile.vectors):
            operands, total = f"{operand} %x{r}, {operand} %y{v}", f"{sums} %s{r}_{v}"
            order = f"{operands}, {total}" if fused else f"{total}, {operands}"
            lines.append(f"%t{r}_{v} = call {sums} @{multiply}({order})")
    stored = []
    for number, (r, v) in enumerate(each):
        stored += [f"%cp{r}_{v} = getelementptr i8, ptr %c, i64 {number * sum_bytes}"]
        stored += [f"store {sums} %t{r}_{v}, ptr %cp{r}_{v}, align 1"]
    return _Body(declared, "", _text(lines), _text(stored))


def _tiles(tile: RegisterTile) -> _Body:
    """Loads of data and weights, products, and stores of the sums."""
    multiply = tile.instruction.llvm
    declared = configure_ir(tile.rows, 16) + "\n".join(
        [
            f"declare void @{multiply}(i8, i8, i8)",
            "declare void @llvm.x86.tilezero(i8)",
            "declare void @llvm.x86.tileloadd64(i8, ptr, i64)",
            "declare void @llvm.x86.tilestored64(i8, ptr, i64)",
        ]
    )
    pairs = [(row, column) for row in range(tile.row_tiles) for column in range(tile.vectors)]
    number = {pair: place for place, pair in enumerate(pairs)}
    zero = [f"%z = call i32 @{configure_function(tile.rows, 16)}(i32 0)"]
    zero += [f"call void @llvm.x86.tilezero(i8 {number[pair]})" for pair in pairs]
    lines = [f"%bk = mul i64 %k, {tile.weight_bytes}", f"%ak = mul i64 %k, {LINE}"]
    for t in range(tile.row_tiles):
        lines += [f"%am{t} = mul i64 %pitch, {t * tile.rows}", f"%ai{t} = add i64 %am{t}, %ak"]
        lines += [f"%ap{t} = getelementptr i8, ptr %a, i64 %ai{t}"]
        lines += [f"call void @llvm.x86.tileloadd64(i8 {DATA + t}, ptr %ap{t}, i64 %pitch)"]
    for v in range(tile.vectors):
        lines += [
            f"%bi{v} = add i64 %bk, {v * _TILE_BYTES}",
            f"%bp{v} = getelementptr i8, ptr %b, i64 %bi{v}",
        ]
        lines += [f"call void @llvm.x86.tileloadd64(i8 {WEIGHTS + v}, ptr %bp{v}, i64 {LINE})"]
    lines += [f"call void @{multiply}(i8 {number[t, v]}, i8 {DATA + t}, i8 {WEIGHTS + v})" for t, v in pairs]
    stored = []
    for place in number.values():
        stored += [f"%cp{place} = getelementptr i8, ptr %c, i64 {place * _TILE_BYTES}"]
        stored += [f"call void @llvm.x86.tilestored64(i8 {place}, ptr %cp{place}, i64 {LINE})"]
    return _Body(declared, _text(zero), _text(lines), _text(stored))


def _text(lines: Sequence[str] | Iterator[str]) -> str:
    return "".join(f"  {line}\n" for line in lines)
