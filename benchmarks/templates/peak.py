"""Arithmetic peak of the cores for one instruction, whose operands stay in registers."""

from __future__ import annotations

import time

import numpy as np
import tvm
from foretune.compiler.instruction_sets import Instruction
from foretune.compiler.templates.cpu.intrinsics.dot_intrinsics import (
    accumulators_and_operands,
    multiply_add_ir,
)
from foretune.compiler.templates.cpu.intrinsics.tile_intrinsics import (
    configure_function,
    configure_ir,
)
from foretune.compiler.tvm_compat import as_task_module, target_cores
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx.script.builder import ir as T

_PASSES = 1_000_000
_SUMS = 12
"""Number of vector sums that are updated in turn, greater than the cycles of a multiply-add."""


def peak_gflops(instruction: Instruction, target: Target) -> float:
    """1e9 operations a second of all cores of the target; a multiply-add counts as two."""
    cores = target_cores(target)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        memory = T.arg("A", T.buffer((cores, 1024), "uint8"))
        linked = T.attr(tirx.const(0, "int32"), "pragma_import_llvm", _llvm_ir(instruction))
        with T.parallel(cores) as core, linked:
            T.evaluate(tirx.call_extern("int32", "peak", tirx.address_of(memory[core, 0])))
    run = tvm.compile(as_task_module(builder.get()), target=target)["main"]
    argument = tvm.runtime.tensor(np.full((cores, 1024), 0x3F, np.uint8))  # products of zeros are faster
    seconds = []
    for _ in range(7):
        start = time.perf_counter()
        run(argument)
        seconds.append(time.perf_counter() - start)
    if instruction.tiles:
        each = 4 * 16 * instruction.lanes * 16 * instruction.step
        passes = _PASSES // 10
    else:
        each, passes = _SUMS * instruction.lanes * instruction.step, _PASSES
    return 2 * cores * each * passes / min(seconds) / 1e9


def _llvm_ir(instruction: Instruction) -> str:
    return _of_tiles(instruction) if instruction.tiles else _of_vectors(instruction)


def _of_vectors(instruction: Instruction) -> str:
    sums, operand = accumulators_and_operands(instruction)
    declared, multiply = multiply_add_ir(instruction)
    numbers = range(_SUMS)
    phis = "".join(f"  %s{n} = phi {sums} [ %s, %entry ], [ %t{n}, %loop ]\n" for n in numbers)
    adds = "".join(
        f"  %t{n} = call {sums} @{multiply}({', '.join(_arguments(instruction, sums, operand, n))})\n"
        for n in numbers
    )
    stores = "".join(
        f"  %p{n} = getelementptr i8, ptr %m, i64 {64 * n}\n  store {sums} %t{n}, ptr %p{n}, align 1\n"
        for n in numbers
    )
    return f"""{declared}
define i32 @peak(ptr %m) {{
entry:
  %s = load {sums}, ptr %m, align 1
  %x = load {operand}, ptr %m, align 1
  %at = getelementptr i8, ptr %m, i64 64
  %y = load {operand}, ptr %at, align 1
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
{phis}{adds}  %j = add i64 %i, 1
  %more = icmp ult i64 %j, {_PASSES}
  br i1 %more, label %loop, label %end
end:
{stores}  ret i32 0
}}
"""


def _arguments(instruction: Instruction, sums: str, operand: str, number: int) -> list[str]:
    operands = [f"{operand} %x", f"{operand} %y"]
    total = f"{sums} %s{number}"
    return [*operands, total] if instruction.step == 1 else [total, *operands]


def _of_tiles(instruction: Instruction) -> str:
    multiply = instruction.llvm
    calls = "".join(f"  call void @{multiply}(i8 {c}, i8 {4 + c // 2}, i8 {6 + c % 2})\n" for c in range(4))
    loads = "".join(f"  call void @llvm.x86.tileloadd64(i8 {t}, ptr %m, i64 64)\n" for t in range(8))
    return f"""{configure_ir(16, 16)}
declare void @{multiply}(i8, i8, i8)
declare void @llvm.x86.tileloadd64(i8, ptr, i64)
define i32 @peak(ptr %m) {{
entry:
  %c = call i32 @{configure_function(16, 16)}(i32 0)
{loads}  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
{calls}  %j = add i64 %i, 1
  %more = icmp ult i64 %j, {_PASSES // 10}
  br i1 %more, label %loop, label %end
end:
  ret i32 0
}}
"""
