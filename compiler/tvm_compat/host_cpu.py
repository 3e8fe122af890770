"""This machine's CPU as LLVM sees it, or the older CPU that the environment variable FORETUNE_CPU names."""

from __future__ import annotations

import os
import re
from difflib import get_close_matches

import tvm_ffi
from tvm.target import Target
from tvm.target.codegen import llvm_get_cpu_archlist, llvm_get_cpu_features, llvm_get_system_cpu

from ...errors import UserError

OLDER_CPU = "FORETUNE_CPU"
"""Environment variable with LLVM's name of an older CPU. Foretune generates code for that CPU in place of
this machine's, as if this machine had no other instruction sets. Other libraries are not affected."""

_INSTRUCTION_SETS = re.compile(
    r"(avx|amx|s?sse|fma|f16c|bmi|lzcnt|popcnt|movbe|gfni|neon|dotprod|fullfp16|bf16|i8mm|sve|lse)[\w.\-]*"
)
"""Features of a CPU that generated code uses; others are for the operating system, or are hints."""


class OlderCpuError(UserError, ValueError):
    """FORETUNE_CPU names no CPU whose code this machine runs."""


def older_cpu() -> str | None:
    """The CPU that FORETUNE_CPU names, None if it is unset or empty.

    Raises OlderCpuError for a name that LLVM does not know, and for a CPU with instruction sets that this
    machine's CPU lacks.
    """
    name = os.environ.get(OLDER_CPU)
    if not name:
        return None
    known = [str(cpu) for cpu in llvm_get_cpu_archlist(Target("llvm"))]
    if name not in known:
        near = get_close_matches(name, known, n=3) or ["haswell", "skylake-avx512"]
        raise OlderCpuError(
            f"{OLDER_CPU}={name}: LLVM knows no such CPU; use a name such as {', '.join(near)}, or unset it"
        )
    here = _machine_features()
    lacking = sorted(n for n in _instruction_sets_of(name) if not here.get(n, True))
    if lacking:
        raise OlderCpuError(
            f"{OLDER_CPU}={name}: this machine's CPU lacks {', '.join(lacking)}; name a CPU without them, or "
            "unset it"
        )
    return name


def host_cpu() -> str:
    """LLVM's name of this machine's CPU, or the one that FORETUNE_CPU names. Raises OlderCpuError."""
    return older_cpu() or str(llvm_get_system_cpu())


def host_features() -> dict[str, bool]:
    """Whether the CPU of `host_cpu` has each feature that LLVM knows of its architecture.

    Raises OlderCpuError.
    """
    features, older = _machine_features(), older_cpu()
    if older is None:
        return features
    kept = _instruction_sets_of(older)
    return {
        name: is_there and (name in kept or not is_instruction_set(name))
        for name, is_there in features.items()
    }


def is_instruction_set(feature: str) -> bool:
    """Whether generated code uses this feature of a CPU, by LLVM's name."""
    return _INSTRUCTION_SETS.fullmatch(feature) is not None


def _instruction_sets_of(cpu: str) -> set[str]:
    features = llvm_get_cpu_features(Target({"kind": "llvm", "mcpu": cpu}))
    return {str(name) for name in features if is_instruction_set(str(name))}


def _machine_features() -> dict[str, bool]:
    """Features that LLVM reads off the CPU itself, including those hidden by a virtual machine."""
    found = tvm_ffi.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    return {str(name): bool(int(is_there)) for name, is_there in found.items()}
