"""Translation of TVM's CUDA text to C++ for the emulation's headers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

LAUNCH_PARAMETERS = (
    "blockIdx.x",
    "blockIdx.y",
    "blockIdx.z",
    "threadIdx.x",
    "threadIdx.y",
    "threadIdx.z",
    "tirx.use_dyn_shared_memory",
)
"""Launch parameters in the order of `EMU_KERNEL`'s positions."""


class NotEmulatedError(ValueError):
    """A kernel is launched in a way that the emulation does not have."""


_INSTRUCTIONS = (
    (re.compile(r"cp\.async\.wait_group (\d+);"), r"emu_wait_group({0});"),
    (re.compile(r"cp\.async\.wait_all;"), r"emu_commit_group(); emu_wait_group(0);"),
    (re.compile(r"cp\.async\.commit_group;"), r"emu_commit_group();"),
    (  # copies where the predicate holds, else writes zeros
        re.compile(r'@p cp\.async\.c[ag]\.shared\.global.*?"n"\((\d+)\), "r"\(predicate\)', re.DOTALL),
        r"if (predicate) emu_copy_async(dst_p, src_p, {0}); else __builtin_memset(dst_p, 0, {0});",
    ),
    (
        re.compile(r'^"cp\.async\.c[ag]\.shared\.global \[%0\], \[%1\], %2;".*?"n"\((\d+)\)', re.DOTALL),
        r"emu_copy_async(dst_p, src_p, {0});",
    ),
)
"""Inline assembly that TVM writes, and what does the same here; names of variables are TVM's."""

_ASSEMBLY = re.compile(r"(?:asm volatile|__asm__ __volatile__)\s*\((.*?)\);\s*\n", re.DOTALL)
_DYNAMIC_SHARED = re.compile(r"extern __shared__ (?:__align__|alignas)\(\d+\) uchar (\w+)\[\];")
_ALIGNED_SHARED = re.compile(r"__shared__ ((?:alignas|__align__)\(\d+\))")
_CUDA_HEADER = re.compile(r"^\s*#include <(?:cuda\w*|mma)\.h>", re.MULTILINE)


def translated(source: str, launch_parameters: Mapping[str, Sequence[str]]) -> str:
    """C++ text of a CUDA module, with an entry for each kernel that TVM's host code calls.

    `launch_parameters` names the parameters behind the arguments of each kernel. Raises NotEmulatedError.
    """
    source = _CUDA_HEADER.sub("", source)
    source = _DYNAMIC_SHARED.sub(r"unsigned char* \1 = emu_dynamic_shared();", source)
    source = _ALIGNED_SHARED.sub(r"\1 __shared__", source)
    source = _ASSEMBLY.sub(_instruction, source)
    entries = [_entry(name, parameters) for name, parameters in launch_parameters.items()]
    return "\n".join(['#include "cuda_on_cpu.h"', source, *entries, ""])


def _instruction(statement: re.Match[str]) -> str:
    text = statement[1].strip()
    for pattern, replacement in _INSTRUCTIONS:
        if found := pattern.search(text):
            return replacement.format(*found.groups()) + "\n"
    # An error of the compiler, because TVM's text also has branches for devices of other generations.
    quoted = json.dumps(f"inline assembly is not emulated, see {__name__}._INSTRUCTIONS: {text}")
    return f"static_assert(false, {quoted});\n"


def _entry(kernel: str, parameters: Sequence[str]) -> str:
    if unknown := set(parameters).difference(LAUNCH_PARAMETERS):
        raise NotEmulatedError(f"kernel {kernel}: launch parameters {sorted(unknown)} are not emulated")
    positions = ", ".join(str(LAUNCH_PARAMETERS.index(parameter)) for parameter in parameters)
    return f"EMU_KERNEL({kernel}, {positions})"
