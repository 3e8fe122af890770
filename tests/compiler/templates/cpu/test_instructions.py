"""Instructions of templates: the target decides, not the machine."""

from __future__ import annotations

import pytest
from foretune.compiler.instruction_sets import INSTRUCTIONS
from foretune.compiler.targets import MissingInstructionError, require_instructions, target_instructions
from tvm.target import Target

BF16 = ("bfloat16", "bfloat16", "float32")
U8S8 = ("uint8", "int8", "int32")
S8S8 = ("int8", "int8", "int32")
F16 = ("float16", "float16", "float16")
F32 = ("float32", "float32", "float32")


def cpu(mcpu: str, *features: str) -> Target:
    return Target({"kind": "llvm", "mcpu": mcpu, "mattr": list(features), "num-cores": 2})


@pytest.mark.parametrize(
    ("target", "types", "names"),
    [
        (cpu("x86-64-v2"), F32, []),
        (cpu("x86-64-v3"), F32, ["avx2_fma"]),
        (cpu("x86-64-v4"), F32, ["avx512_fma", "avx2_fma"]),
        (cpu("x86-64-v4"), BF16, []),
        (cpu("x86-64-v4", "+avx512bf16"), BF16, ["avx512_bf16"]),
        (cpu("cooperlake"), BF16, ["avx512_bf16"]),
        (cpu("sapphirerapids"), BF16, ["amx_bf16", "avx512_bf16"]),
        (cpu("sapphirerapids"), F16, ["avx512_fp16_fma"]),
        (cpu("haswell"), F16, []),
        (cpu("x86-64-v2"), U8S8, []),
        (cpu("ivybridge"), U8S8, []),
        (cpu("haswell"), U8S8, ["avx2_madd_u8s8"]),
        (cpu("haswell"), S8S8, ["avx2_madd_s8s8"]),
        (cpu("skylake-avx512"), U8S8, ["avx512_madd_u8s8", "avx2_madd_u8s8"]),
        (cpu("cascadelake"), U8S8, ["avx512_vnni_u8s8"]),
        (cpu("alderlake"), U8S8, ["avx_vnni_u8s8"]),
        (cpu("sapphirerapids"), U8S8, ["amx_u8s8", "avx512_vnni_u8s8", "avx_vnni_u8s8"]),
        (Target("nvidia/nvidia-a100"), F32, []),
    ],
)
def test_the_target_says_what_it_has(target: Target, types: tuple[str, str, str], names: list[str]) -> None:
    assert [instruction.name for instruction in target_instructions(target, *types)] == names


def test_a_missing_instruction_is_an_error_that_names_targets_with_it() -> None:
    with pytest.raises(MissingInstructionError, match=r"target=x86-64-v3.*bfloat16.*avx512bf16"):
        require_instructions(cpu("x86-64-v3"), *BF16)
    with pytest.raises(MissingInstructionError, match=r"float64 x float64.*float32 x float32 -> float32"):
        require_instructions(cpu("sapphirerapids"), "float64", "float64", "float64")


def test_names_are_different() -> None:
    assert len({instruction.name for instruction in INSTRUCTIONS}) == len(INSTRUCTIONS)
