"""Tensor intrinsics of AMX: tile registers of up to 16 rows of 64 bytes.

Buffers of TIR stand for tile registers, as they do for the fragments of tensor cores: nothing is stored in
them, and an offset within one selects the tile. Tiles 0 to 3 hold accumulators, 4 and 5 data, 6 and 7
weights. Data may have fewer than 16 rows or 64 bytes a row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tvm import DataType, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as T

from ....instruction_sets import Instruction
from ....tvm_compat import IMPORT_LLVM
from .dot_intrinsics import pointer_to

COLUMNS = 16
"""Columns of an accumulator tile."""

DATA, WEIGHTS = 4, 6
"""First tile of data, first tile of weights."""

MOST_ACROSS = 2
"""Tiles of data, or of weights, at most: their product of accumulators takes the other four registers."""

PARTS = ("zero", "load_data", "load_weight", "multiply", "store", "store_local")
"""Parts of a product of tiles; an epilogue reads what `store_local` stores."""


def tile_name(
    instruction: Instruction, part: str, rows: int, words: int, stride: int = 1, channels: int = 0
) -> str:
    """Name of an intrinsic in traces.

    `rows` of data and accumulators, `words` of 4 bytes along the reduction, `stride` between rows of data.
    Rows of data overlap where a row is a part of several pixels of so many `channels`; 0 for a part of one.
    """
    return f"foretune.{instruction.name}.{part}.{rows}x{words}s{stride}" + (f"c{channels}" * bool(channels))


def tile_intrinsic(
    instruction: Instruction, part: str, rows: int, words: int, stride: int, channels: int = 0
) -> tuple[PrimFunc, PrimFunc]:
    """Description and implementation of one part of a product of tiles."""
    make: dict[str, Callable[..., PrimFunc]] = {
        "zero": _zero,
        "load_data": partial(_load_data, channels=channels),
        "load_weight": _load_weight,
        "multiply": _multiply,
        "store": _store,
        "store_local": partial(_store, scope="local"),
    }
    shape = (instruction, rows, words, stride)
    return make[part](*shape, False), make[part](*shape, True)


def _zero(ins: Instruction, rows: int, words: int, stride: int, native: bool) -> PrimFunc:
    """Accumulators to zero; the first tile of a product also configures the tiles."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        c = _strided("C", rows, COLUMNS, ins.accumulator, "local")
        with T.sblock("root"):
            T.reads()
            T.writes(c[0:rows, 0:COLUMNS])
            if native:
                tile = tirx.Cast("int32", _index(c, rows, COLUMNS))
                with T.attr(tirx.const(0, "int32"), IMPORT_LLVM, configure_ir(rows, words)):
                    T.evaluate(tirx.call_extern("int32", configure_function(rows, words), tile))
                T.evaluate(tirx.call_llvm_intrin("int32", "llvm.x86.tilezero", tirx.Cast("uint8", tile)))
            else:
                with T.grid(rows, COLUMNS) as (i, j), T.sblock("zero"):
                    row, column = T.axis.spatial(rows, i), T.axis.spatial(COLUMNS, j)
                    T.reads()
                    T.writes(c[row, column])
                    T.buffer_store(c, tirx.const(0, ins.accumulator), [row, column])
    return builder.get()


def _load_data(
    ins: Instruction, rows: int, words: int, stride: int, native: bool, channels: int = 0
) -> PrimFunc:
    width = words * ins.step
    pixel = channels or width
    reach = (rows - 1) * stride + width // pixel
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        a = _strided("A", reach, pixel, ins.data)
        tile = _strided("D", rows, width, ins.data, "local")
        with T.sblock("root"):
            T.reads(a[0:reach, 0:pixel])
            T.writes(tile[0:rows, 0:width])
            if native:
                number = DATA + _index(tile, rows, width)
                _move("llvm.x86.tileloadd64", number, pointer_to(a, "r"), a.strides[0] * stride, a.dtype)
            else:
                with T.grid(rows, width) as (i, k), T.sblock("load"):
                    row, term = T.axis.spatial(rows, i), T.axis.spatial(width, k)
                    at = row * stride + tirx.floordiv(term, pixel), tirx.floormod(term, pixel)
                    T.reads(a[at])
                    T.writes(tile[row, term])
                    T.buffer_store(tile, a[at], [row, term])
    return builder.get()


def _load_weight(ins: Instruction, rows: int, words: int, stride: int, native: bool) -> PrimFunc:
    shape = (words, COLUMNS, ins.step)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        b = T.arg("B", T.buffer(shape, ins.weight, offset_factor=1))
        tile = T.arg("D", T.buffer(shape, ins.weight, scope="local", offset_factor=1))
        with T.sblock("root"):
            T.reads(b[0:words, 0:COLUMNS, 0 : ins.step])
            T.writes(tile[0:words, 0:COLUMNS, 0 : ins.step])
            if native:
                number = WEIGHTS + tirx.floordiv(tile.elem_offset, words * COLUMNS * ins.step)
                _move("llvm.x86.tileloadd64", number, pointer_to(b, "r"), COLUMNS * ins.step, b.dtype)
            else:
                with T.grid(*shape) as (i, j, k), T.sblock("load"):
                    at = [T.axis.spatial(n, v) for n, v in zip(shape, (i, j, k), strict=True)]
                    T.reads(b[tuple(at)])
                    T.writes(tile[tuple(at)])
                    T.buffer_store(tile, b[tuple(at)], at)
    return builder.get()


def _multiply(ins: Instruction, rows: int, words: int, stride: int, native: bool) -> PrimFunc:
    width = words * ins.step
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        a = _strided("A", rows, width, ins.data, "local")
        b = T.arg("B", T.buffer((words, COLUMNS, ins.step), ins.weight, scope="local", offset_factor=1))
        c = _strided("C", rows, COLUMNS, ins.accumulator, "local")
        with T.sblock("root"):
            T.reads(c[0:rows, 0:COLUMNS], a[0:rows, 0:width], b[0:words, 0:COLUMNS, 0 : ins.step])
            T.writes(c[0:rows, 0:COLUMNS])
            if native:
                weights = WEIGHTS + tirx.floordiv(b.elem_offset, words * COLUMNS * ins.step)
                numbers = _index(c, rows, COLUMNS), DATA + _index(a, rows, width), weights
                tiles = [tirx.Cast("uint8", number) for number in numbers]
                T.evaluate(tirx.call_llvm_intrin("int32", ins.llvm, *tiles))
            else:
                with T.grid(rows, COLUMNS, width) as (i, j, k), T.sblock("update"):
                    row, column = T.axis.spatial(rows, i), T.axis.spatial(COLUMNS, j)
                    term = T.axis.reduce(width, k)
                    weight = b[tirx.floordiv(term, ins.step), column, tirx.floormod(term, ins.step)]
                    T.reads(c[row, column], a[row, term], weight)
                    T.writes(c[row, column])
                    product = tirx.Cast(ins.accumulator, a[row, term]) * tirx.Cast(ins.accumulator, weight)
                    T.buffer_store(c, c[row, column] + product, [row, column])
    return builder.get()


def _store(
    ins: Instruction, rows: int, words: int, stride: int, native: bool, scope: str = "global"
) -> PrimFunc:
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        tile = _strided("D", rows, COLUMNS, ins.accumulator, "local")
        c = _strided("C", rows, COLUMNS, ins.accumulator, scope)
        with T.sblock("root"):
            T.reads(tile[0:rows, 0:COLUMNS])
            T.writes(c[0:rows, 0:COLUMNS])
            if native:
                number = _index(tile, rows, COLUMNS)
                _move("llvm.x86.tilestored64", number, pointer_to(c, "w"), c.strides[0], c.dtype)
            else:
                with T.grid(rows, COLUMNS) as (i, j), T.sblock("store"):
                    row, column = T.axis.spatial(rows, i), T.axis.spatial(COLUMNS, j)
                    T.reads(tile[row, column])
                    T.writes(c[row, column])
                    T.buffer_store(c, tile[row, column], [row, column])
    return builder.get()


def _strided(name: str, rows: int, width: int, dtype: str, scope: str = "global") -> tirx.Buffer:
    """Argument of rows that need not follow each other in memory."""
    strides = [tirx.Var(f"{name}_{axis}", "int32") for axis in ("row", "column")]
    return T.arg(name, T.buffer((rows, width), dtype, strides=strides, scope=scope, offset_factor=1))


def _index(tile: tirx.Buffer, rows: int, width: int) -> tirx.Expr:
    """Number of a tile within a buffer of several, in row-major order."""
    row, column = (
        tirx.floordiv(tile.elem_offset, tile.strides[0]),
        tirx.floormod(tile.elem_offset, tile.strides[0]),
    )
    return tirx.floordiv(row, rows) * tirx.floordiv(tile.strides[0], width) + tirx.floordiv(column, width)


def _move(intrinsic: str, tile: tirx.Expr, pointer: tirx.Expr, stride: tirx.Expr | int, dtype: str) -> None:
    """Loads or stores a tile at a pointer, with `stride` elements from row to row."""
    bytes_per_row = stride * (DataType(dtype).bits // 8)
    call = tirx.call_llvm_intrin(
        "int32", intrinsic, tirx.Cast("uint8", tile), pointer, tirx.Cast("int64", bytes_per_row)
    )
    T.evaluate(call)


def configure_function(rows: int, words: int) -> str:
    """Name of the function of `configure_ir`."""
    return f"foretune_amx_configure_{rows}x{words}"


def configure_ir(rows: int, words: int) -> str:
    """Function that configures all tiles if its argument is 0 and they are configured otherwise.

    Configuring takes about as long as six products of tiles and waits for instructions under way, which is
    most of the time if a reduction is short; storing the configuration to compare it takes a tenth. No
    note of ours can replace the comparison: other libraries of the process configure tiles, too.

    Linux allows a process the use of tiles when it asks for it, which is done once (arch_prctl with
    ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA). A process that is refused ends at the first tile.
    """
    row_bytes = [64] * DATA + [4 * words] * 2 + [64] * 2
    row_counts = [rows] * WEIGHTS + [words] * 2
    header = [1, *[0] * 15]  # palette 1
    widths = [byte for value in row_bytes for byte in (value, 0)]
    config = [*header, *widths, *[0] * 16, *row_counts, *[0] * 8]
    text = "".join(f"\\{byte:02X}" for byte in config)
    name = configure_function(rows, words)
    return f"""
@{name}_tiles = internal constant [64 x i8] c"{text}", align 64
@foretune_amx_allowed = internal global i8 0
declare i64 @syscall(i64, ...)
declare void @llvm.x86.ldtilecfg(ptr)
declare void @llvm.x86.sttilecfg(ptr)
declare i64 @llvm.vector.reduce.or.v8i64(<8 x i64>)
define i32 @{name}(i32 %tile) alwaysinline {{
  %now = alloca [64 x i8], align 64
  %first = icmp eq i32 %tile, 0
  br i1 %first, label %check, label %end
check:
  call void @llvm.x86.sttilecfg(ptr %now)
  %found = load volatile <8 x i64>, ptr %now, align 64
  %wanted = load <8 x i64>, ptr @{name}_tiles, align 64
  %differing = xor <8 x i64> %found, %wanted
  %any = call i64 @llvm.vector.reduce.or.v8i64(<8 x i64> %differing)
  %other = icmp ne i64 %any, 0
  br i1 %other, label %begin, label %end
begin:
  %known = load i8, ptr @foretune_amx_allowed
  %allowed = icmp ne i8 %known, 0
  br i1 %allowed, label %configure, label %ask
ask:
  %answer = call i64 (i64, ...) @syscall(i64 158, i64 4131, i64 18)
  store i8 1, ptr @foretune_amx_allowed
  br label %configure
configure:
  call void @llvm.x86.ldtilecfg(ptr @{name}_tiles)
  br label %end
end:
  ret i32 0
}}
"""
