"""Products of 8-bit integers: extreme values, whose pairs would saturate 16 bits, and code for older CPUs."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tvm
from foretune.compiler.codegen.compilation import compile_module, entries
from foretune.compiler.instruction_sets import INSTRUCTIONS, Instruction
from foretune.compiler.templates.cpu.programs import template_programs
from tvm.target import Target

from tests.support.contractions import Convolution, Product
from tests.support.cpus import cpu, require

INTEGERS = [one for one in INSTRUCTIONS if one.accumulator == "int32"]
ROWS, COLUMNS, DEPTH = 8, 32, 32


def target_of(instruction: Instruction) -> Target:
    base = "x86-64-v4" if instruction.lanes == 16 else "x86-64-v3"
    return cpu(base, *(f"+{feature}" for feature in instruction.features))


@pytest.mark.parametrize("instruction", INTEGERS, ids=lambda one: one.name)
@pytest.mark.parametrize("signs", ["equal", "alternating"])
def test_sums_of_extreme_values_are_exact(instruction: Instruction, signs: str) -> None:
    """255 x -128 + 255 x -128 = -65,280, twice the least number of 16 bits."""
    target = target_of(instruction)
    require(target)
    task = Product(ROWS, COLUMNS, DEPTH, instruction.data)
    _, program = next(
        (template, sch)
        for template, sch in template_programs(task.module(), target, None)
        if template.instruction is instruction
    )
    module, buffers = entries(program.mod, checked=True)
    entry = "checked" if "checked" in buffers else "main"
    run = compile_module(module, target)[entry]
    least, most = (0, 255) if instruction.data == "uint8" else (-128, 127)
    data = np.full((ROWS, DEPTH), most, instruction.data)
    data[1::2] = least
    weight = np.full((DEPTH, COLUMNS), -128, "int8")
    weight[:, 1::2] = 127
    if signs == "alternating":
        weight[1::2] = -1 - weight[1::2]
    sums = tvm.runtime.tensor(np.zeros((ROWS, COLUMNS), "int32"))
    run(tvm.runtime.tensor(data), tvm.runtime.tensor(weight), sums)
    found = sums.numpy()
    assert (found == data.astype(np.int32) @ weight.astype(np.int32)).all()
    even, odd = (DEPTH, 0) if signs == "equal" else (DEPTH // 2, DEPTH // 2)
    assert found[0, 0] == most * (-128 * even + 127 * odd)
    assert found[1, 1] == least * (127 * even - 128 * odd)


@pytest.mark.parametrize(
    ("name", "register"), [("haswell", "ymm"), ("znver3", "ymm"), ("skylake-avx512", "zmm")]
)
@pytest.mark.parametrize(
    "task",
    [
        Product(28, 96, 64, "uint8", epilogue="relu"),
        Convolution(14, 16, 32, kernel=3, padding=1, dtype="uint8", epilogue="relu"),
    ],
    ids=["product", "convolution"],
)
def test_cpus_without_vnni_multiply_pairs_of_16_bits(
    task: Product | Convolution, name: str, register: str
) -> None:
    """Instructions for pairs of 8 bits saturate their sums; the code has none of them."""
    target = cpu(name)
    _, program = next(template_programs(task.module(), target, None))
    code = tvm.compile(program.mod, target=target).mod.inspect_source("asm")
    assert re.search(rf"vpmaddwd\s.*%{register}", code)
    assert "vpmaddubsw" not in code and "callq\tforetune" not in code
