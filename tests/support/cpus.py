"""CPUs that tests generate code for, and the instructions that the CPU which runs the tests executes."""

from __future__ import annotations

import pytest
from foretune.compiler.instruction_sets import INSTRUCTIONS
from foretune.compiler.targets import target_instructions
from foretune.compiler.tvm_compat import missing_instruction_sets, parse_target
from tvm.target import Target

HERE = parse_target("llvm")
"""CPU that runs the tests, or the older one of FORETUNE_CPU."""

TYPES = {
    "float32": ("float32", "float32", "float32"),
    "bfloat16": ("bfloat16", "bfloat16", "float32"),
    "int8": ("uint8", "int8", "int32"),
}
"""Data, weight and accumulator of a network's products by its data type."""


def cpu(name: str, *features: str, cores: int = 2) -> Target:
    """Target for a CPU by LLVM's name, with features such as +avxvnni and -avx512f."""
    spec = {"kind": "llvm", "mcpu": name, "num-cores": cores}
    return parse_target({**spec, "mattr": list(features)} if features else spec)


def lacking(target: Target) -> str:
    """Reason why code of a target cannot be executed here; empty where it can."""
    missing = missing_instruction_sets(target)
    return f"this CPU lacks {', '.join(missing)}" if missing else ""


def widest(*targets: Target) -> Target:
    """The first target whose code can be executed here, the last one if none can."""
    return next((target for target in targets if not lacking(target)), targets[-1])


def require(target: Target) -> None:
    """Skips the rest of a test, which executes code of a target."""
    if reason := lacking(target):
        pytest.skip(reason)


def multiplies(dtype: str) -> pytest.MarkDecorator:
    """Mark of a test that executes the multiply-adds of a data type of TYPES."""
    known = [one for one in INSTRUCTIONS if one.types == TYPES[dtype]]
    names = " and ".join("+".join(one.features) for one in known)
    return pytest.mark.skipif(not target_instructions(HERE, *TYPES[dtype]), reason=f"this CPU lacks {names}")
