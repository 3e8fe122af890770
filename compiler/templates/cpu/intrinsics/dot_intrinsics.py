"""Tensor intrinsics of vector instructions: each lane adds the dot product of two or four elements.

The implementation is LLVM IR, which TVM links and inlines, so that it needs no compiler. Operands are passed
as pointers: bfloat16 vectors do not pass TVM's code generation. They are access pointers, as TVM stores a
buffer of bfloat16 in float32 where all accesses are loads and stores. The accesses say that sums and operands
are of different types (`!tbaa`): LLVM stored each sum in the loop otherwise, as an operand could be the same
memory, which took 2.4 times as long on Zen 4. They share no root with TVM's own types, whose accesses of the
same sums they must not pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx import PrimFunc
from tvm.tirx.script.builder import ir as T

from ....instruction_sets import Instruction
from ....tvm_compat import IMPORT_LLVM
from ....types import data_type


def dot_name(instruction: Instruction) -> str:
    """Name of the intrinsic in traces."""
    return f"foretune.{instruction.name}"


def accumulators_and_operands(instruction: Instruction) -> tuple[str, str]:
    """LLVM's types of accumulators and operands."""
    sums, operand = data_type(instruction.accumulator).llvm, data_type(instruction.weight).llvm
    elements = instruction.lanes * instruction.step
    return f"<{instruction.lanes} x {sums}>", f"<{elements} x {operand}>"


def multiply_add_ir(instruction: Instruction) -> tuple[str, str]:
    """LLVM IR that a caller needs, and the name of a function of vectors of sums, data and weights.

    A fused multiply-add has the sums as its last argument.
    """
    sums, operand = accumulators_and_operands(instruction)
    if not instruction.widens:
        return f"declare {sums} @{instruction.llvm}({sums}, {operand}, {operand})\n", instruction.llvm
    name = f"foretune_{instruction.name}_product"
    half = f"<{instruction.lanes * instruction.step // 2} x i16>"
    # Words of 16 bits hold an element of the even half in their low byte, of the odd one in their high byte.
    # Products are added in 32 bits. vpmaddubsw needs no widening, but its sums of 16 bits saturate: 255 * 127
    # + 255 * 127 exceeds them.
    shift = "ashr" if data_type(instruction.data).range[0] < 0 else "lshr"
    return (
        f"""
declare {sums} @{instruction.llvm}({half}, {half})
define internal {sums} @{name}({sums} %s, {operand} %x, {operand} %y) alwaysinline {{
  %xs = bitcast {operand} %x to {half}
  %ys = bitcast {operand} %y to {half}
  %xl = shl {half} %xs, splat (i16 8)
  %yl = shl {half} %ys, splat (i16 8)
  %x0 = {shift} {half} %xl, splat (i16 8)
  %y0 = ashr {half} %yl, splat (i16 8)
  %x1 = {shift} {half} %xs, splat (i16 8)
  %y1 = ashr {half} %ys, splat (i16 8)
  %even = call {sums} @{instruction.llvm}({half} %x0, {half} %y0)
  %odd = call {sums} @{instruction.llvm}({half} %x1, {half} %y1)
  %t = add {sums} %s, %even
  %sum = add {sums} %t, %odd
  ret {sums} %sum
}}
""",
        name,
    )


def pointer_to(buffer: tirx.Buffer, access: str, offset: tirx.Expr | int = 0) -> tirx.Expr:
    """Pointer to the element of a buffer at an offset; `access` is made of r and w.

    TVM lowers bfloat16 to 16-bit integers, but would take the target of a pointer for float32.
    """
    pointer = buffer.access_ptr(access, offset=offset)
    if str(buffer.dtype) != "bfloat16":
        return pointer
    element = tirx.type_annotation("uint16")
    return tirx.call_intrin(pointer.ty, "tirx.tvm_access_ptr", element, *pointer.args[1:])


def dot_description(instruction: Instruction) -> PrimFunc:
    """TIR of C[lanes] += A[step] * B[lanes, step], by which TVM recognises the loops to replace."""
    lanes, step, wide = instruction.lanes, instruction.step, instruction.accumulator
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        a, b, c = _arguments(instruction)
        with T.sblock("root"):
            T.reads(c[0:lanes], a[0:step], b[0:lanes, 0:step])
            T.writes(c[0:lanes])
            with T.grid(lanes, step) as (i, k), T.sblock("update"):
                lane, term = T.axis.spatial(lanes, i), T.axis.reduce(step, k)
                T.reads(c[lane], a[term], b[lane, term])
                T.writes(c[lane])
                product = tirx.Cast(wide, a[term]) * tirx.Cast(wide, b[lane, term])
                T.buffer_store(c, c[lane] + product, [lane])
    return builder.get()


def dot_implementation(instruction: Instruction) -> PrimFunc:
    """The same as one instruction."""
    lanes, step = instruction.lanes, instruction.step
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        a, b, c = _arguments(instruction)
        with T.sblock("root"):
            T.reads(c[0:lanes], a[0:step], b[0:lanes, 0:step])
            T.writes(c[0:lanes])
            with T.attr(tirx.const(0, "int32"), IMPORT_LLVM, dot_llvm_ir(instruction)):
                T.evaluate(_call(instruction, pointer_to(c, "rw"), pointer_to(a, "r"), pointer_to(b, "r")))
    return builder.get()


Place = tuple[tirx.Buffer, Sequence[Any]]
"""An array with the indices of an element."""


def dot_call(instruction: Instruction, sums: Place, data: Place, weights: Place) -> tirx.Evaluate:
    """The instruction as a statement that adds to a vector of sums, next to which `dot_llvm_ir` is compiled.

    Each place has the first element of a vector of sums, of the data of one lane and of the weights of all.
    """
    pointers = (
        pointer_to(array, access, array.offset_of(list(indices))[0])
        for access, (array, indices) in zip(("rw", "r", "r"), (sums, data, weights), strict=True)
    )
    return tirx.Evaluate(_call(instruction, *pointers))


def _call(instruction: Instruction, *pointers: tirx.Expr) -> tirx.Expr:
    return tirx.call_extern("int32", _function(instruction), *pointers)


def _arguments(instruction: Instruction) -> tuple[tirx.Buffer, tirx.Buffer, tirx.Buffer]:
    T.func_name("main")
    lanes, step = instruction.lanes, instruction.step
    return (
        T.arg("A", T.buffer((step,), instruction.data, offset_factor=1)),
        T.arg("B", T.buffer((lanes, step), instruction.weight, offset_factor=1)),
        T.arg("C", T.buffer((lanes,), instruction.accumulator, scope="local", offset_factor=1)),
    )


def _function(instruction: Instruction) -> str:
    return f"foretune_{instruction.name}"


def dot_llvm_ir(instruction: Instruction) -> str:
    """LLVM IR of a function of pointers to accumulators, data and weights."""
    lanes = instruction.lanes
    sums, operand = accumulators_and_operands(instruction)
    before, multiply = multiply_add_ir(instruction)
    # vpdpbusd reads unsigned data. Signed data is shifted by 128, and 128 times the weights is subtracted,
    # which all rows of a register tile share.
    signed = instruction.shifts
    word = "%shifted" if signed else "%word"
    correction = f"""
  %all = bitcast <{lanes} x i32> splat (i32 -2139062144) to {operand}
  %excess = call {sums} @{multiply}({sums} zeroinitializer, {operand} %all, {operand} %y)
  %result = sub {sums} %sum, %excess"""
    return f"""{before}
define i32 @{_function(instruction)}(ptr %c, ptr %a, ptr %b) alwaysinline {{
  %word = load i32, ptr %a, align 1, !tbaa !3
  %shifted = xor i32 %word, -2139062144
  %first = insertelement <{lanes} x i32> poison, i32 {word}, i64 0
  %words = shufflevector <{lanes} x i32> %first, <{lanes} x i32> poison, <{lanes} x i32> zeroinitializer
  %x = bitcast <{lanes} x i32> %words to {operand}
  %y = load {operand}, ptr %b, align 1, !tbaa !3
  %before = load {sums}, ptr %c, align 4, !tbaa !4
  %sum = call {sums} @{multiply}({sums} %before, {operand} %x, {operand} %y){correction if signed else ""}
  store {sums} {"%result" if signed else "%sum"}, ptr %c, align 4, !tbaa !4
  ret i32 0
}}
!0 = !{{!"foretune"}}
!1 = !{{!"operand", !0, i64 0}}
!2 = !{{!"sum", !0, i64 0}}
!3 = !{{!1, !1, i64 0}}
!4 = !{{!2, !2, i64 0}}
"""
