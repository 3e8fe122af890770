"""Multiply-add instructions of x86 CPUs that templates are made of, and the choice of one by the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm.target import Target
from tvm.target.codegen import llvm_cpu_has_features

from ....errors import UserError


class MissingInstructionError(UserError, ValueError):
    """The target has no multiply-add instruction for a data type."""


@dataclass(frozen=True)
class Instruction:
    """One instruction that multiplies, adds in pairs or fours, and accumulates, for all lanes of a vector."""

    name: str
    """Name in the names of tensor intrinsics; it never changes, as traces refer to it."""
    features: tuple[str, ...]
    """LLVM's names of the features that the target must have."""
    data: str
    """Data type of the left operand, the data of an operator."""
    weight: str
    """Data type of the right operand, the weight."""
    accumulator: str
    lanes: int
    """Accumulators of one vector, or columns of one tile."""
    step: int
    """Elements of the reduction that one accumulator takes at once."""
    registers: int
    """Vector registers, or tiles."""
    tiles: bool = False
    """Whether operands are tiles of two dimensions, as those of AMX."""

    @property
    def types(self) -> tuple[str, str, str]:
        """Data types of data, weight and accumulator."""
        return self.data, self.weight, self.accumulator


_BF16 = ("bfloat16", "bfloat16", "float32")
_U8S8 = ("uint8", "int8", "int32")
_S8S8 = ("int8", "int8", "int32")
_F32 = ("float32", "float32", "float32")

INSTRUCTIONS: tuple[Instruction, ...] = (
    Instruction("amx_bf16", ("amx-tile", "amx-bf16"), *_BF16, 16, 2, 8, tiles=True),
    Instruction("amx_u8s8", ("amx-tile", "amx-int8"), *_U8S8, 16, 4, 8, tiles=True),
    Instruction("amx_s8s8", ("amx-tile", "amx-int8"), *_S8S8, 16, 4, 8, tiles=True),
    Instruction("avx512_bf16", ("avx512bf16",), *_BF16, 16, 2, 32),
    Instruction("avx512_vnni_u8s8", ("avx512vnni",), *_U8S8, 16, 4, 32),
    Instruction("avx512_vnni_s8s8", ("avx512vnni",), *_S8S8, 16, 4, 32),
    Instruction("avx_vnni_u8s8", ("avxvnni",), *_U8S8, 8, 4, 16),
    Instruction("avx_vnni_s8s8", ("avxvnni",), *_S8S8, 8, 4, 16),
    Instruction("avx512_fma", ("avx512f",), *_F32, 16, 1, 32),
    Instruction("avx2_fma", ("avx2", "fma"), *_F32, 8, 1, 16),
)
"""All instructions, the fastest of each data type first."""

INSTRUCTION = {instruction.name: instruction for instruction in INSTRUCTIONS}
"""Instruction by name."""


def target_instructions(target: Target, data: str, weight: str, accumulator: str) -> list[Instruction]:
    """Instructions of a target for these data types, the fastest first; empty where it has none.

    The target decides, by its mcpu and mattr, and never the machine that asks.
    """
    return [
        instruction
        for instruction in INSTRUCTIONS
        if instruction.types == (data, weight, accumulator) and _has(target, instruction.features)
    ]


def require_instructions(target: Target, data: str, weight: str, accumulator: str) -> list[Instruction]:
    """`target_instructions`; raises MissingInstructionError where there is none."""
    found = target_instructions(target, data, weight, accumulator)
    if found:
        return found
    known = [other for other in INSTRUCTIONS if other.types == (data, weight, accumulator)]
    cpu = target.attrs.get("mcpu", "generic") if target.kind.name == "llvm" else target.kind.name
    if known:
        targets = " or ".join("+".join(other.features) for other in known)
        advice = f"use a target with {targets}, or another data type"
    else:
        types = sorted({f"{o.data} x {o.weight} -> {o.accumulator}" for o in INSTRUCTIONS})
        advice = f"use one of {', '.join(types)}"
    raise MissingInstructionError(
        f"target={cpu}: no multiply-add instruction for {data} x {weight} -> {accumulator}; {advice}"
    )


def _has(target: Target, features: Sequence[str]) -> bool:
    if target.kind.name != "llvm":
        return False
    return bool(llvm_cpu_has_features(list(features), target))
