"""Traits of named targets, and rows that add an instruction set."""

from __future__ import annotations

import pytest
from foretune.compiler import targets
from foretune.compiler.instruction_sets import GPUS, Conversion, Instruction, VectorSet, step_of
from foretune.compiler.targets import MissingInstructionError, TargetTraits, traits
from foretune.compiler.tvm_compat import parse_target
from foretune.compiler.types import data_type
from support.cpus import cpu
from tvm.target import Target

ARM = Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n1", "num-cores": 4})


def gpu(arch: str) -> Target:
    return parse_target({"kind": "cuda", "arch": arch, "max_threads_per_block": 512})


@pytest.mark.parametrize(
    ("name", "bits", "registers", "fused"),
    [("x86-64", 128, 16, False), ("haswell", 256, 16, True), ("sapphirerapids", 512, 32, True)],
)
def test_vectors_of_cpus(name: str, bits: int, registers: int, fused: bool) -> None:
    found = traits(cpu(name))
    assert found.vectors is not None and found.vectors.registers == registers
    assert (found.vector_bits, found.fuses_multiply_add, found.cores) == (bits, fused, 2)
    assert found.limits is None and found.gpu is None and not found.tensor_cores


def test_tile_registers() -> None:
    assert traits(cpu("sapphirerapids")).tile_registers == 8
    assert traits(cpu("cooperlake")).tile_registers == 0


@pytest.mark.parametrize(
    ("name", "float16", "bfloat16", "sums"),
    [
        ("x86-64-v2", False, False, "float32"),
        ("haswell", True, False, "float32"),
        ("cooperlake", True, True, "float32"),
        ("sapphirerapids", True, True, "float16"),
    ],
)
def test_conversions_and_arithmetic(name: str, float16: bool, bfloat16: bool, sums: str) -> None:
    found = traits(cpu(name))
    assert (found.converts("float16"), found.converts("bfloat16")) == (float16, bfloat16)
    assert found.product_sums(data_type("float16")) == sums
    assert found.product_sums(data_type("bfloat16")) == "float32"


def test_a_cpu_without_conversions_has_no_networks_in_float16() -> None:
    with pytest.raises(MissingInstructionError, match=r"target=x86-64-v2 .*float16 and float32.*with f16c"):
        traits(cpu("x86-64-v2")).require(data_type("float16"))
    for name in ("haswell", "sapphirerapids"):
        traits(cpu(name)).require(data_type("float16"))


def test_gpus() -> None:
    older, newer = traits(gpu("sm_75")), traits(gpu("sm_90"))
    assert (older.capability, older.gpu, newer.gpu) == (75, None, GPUS[90])
    assert {one.operand for one in older.tensor_cores} == {"float16", "int8"}
    assert newer.limits is not None and newer.limits.threads == 512
    older.require(data_type("float16"))
    with pytest.raises(MissingInstructionError, match=r"sm_75 multiplies no bfloat16; use a GPU from sm_80"):
        older.require(data_type("bfloat16"))
    with pytest.raises(MissingInstructionError, match=r"sm_61 multiplies no float16; use a GPU from sm_75"):
        traits(gpu("sm_61")).require(data_type("float16"))


def test_steps() -> None:
    assert [step_of(name) for name in ("float32", "float16", "bfloat16", "int8")] == [1, 1, 2, 4]


def test_rows_add_an_instruction_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TargetTraits(ARM).vectors is None and not TargetTraits(ARM).instructions
    fma = Instruction(
        *("neon_fma", ("neon",), "float32", "float32", "float32", 4, 1, 32, "llvm.fma.v4f32"),
    )
    monkeypatch.setattr(targets, "VECTOR_SETS", (*targets.VECTOR_SETS, VectorSet(("neon",), 128, 32)))
    monkeypatch.setattr(targets, "INSTRUCTIONS", (*targets.INSTRUCTIONS, fma))
    monkeypatch.setattr(targets, "CONVERSIONS", (Conversion("float16", ("neon",)),))
    found = TargetTraits(ARM)
    assert (found.vector_bits, found.fuses_multiply_add, found.instructions) == (128, True, (fma,))
    found.require(data_type("float16"))
