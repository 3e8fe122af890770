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

_LOAD_MATRICES = re.compile(r"ldmatrix\.sync\.aligned\.m8n8\.x4(\.trans)?\.shared\.b16\b")
_MULTIPLY = re.compile(r"mma\.sync\.aligned\.m16n8k(8|16)\.row\.col\.(f16|f32)\.(f16|bf16)\.\3\.\2\b")
_ELEMENTS = {"f16": "half", "bf16": "nv_bfloat16"}

_ASSEMBLY = re.compile(r"(?:asm volatile|__asm__ __volatile__)\s*\((.*?)\);\s*\n", re.DOTALL)
_DYNAMIC_SHARED = re.compile(r"extern __shared__ (?:__align__|alignas)\(\d+\) uchar (\w+)\[\];")
_ALIGNED_SHARED = re.compile(r"__shared__ ((?:alignas|__align__)\(\d+\))")
_SHARED_ADDRESS = re.compile(r"unsigned int (\w+) = __cvta_generic_to_shared\(")
_CUDA_HEADER = re.compile(r"^\s*#include <(?:cuda\w*|mma)\.h>", re.MULTILINE)


def translated(source: str, launch_parameters: Mapping[str, Sequence[str]]) -> str:
    """C++ text of a CUDA module, with an entry for each kernel that TVM's host code calls.

    `launch_parameters` names the parameters behind the arguments of each kernel. Raises NotEmulatedError.
    """
    source = _CUDA_HEADER.sub("", source)
    source = _DYNAMIC_SHARED.sub(r"unsigned char* \1 = emu_dynamic_shared();", source)
    source = _ALIGNED_SHARED.sub(r"\1 __shared__", source)
    source = _SHARED_ADDRESS.sub(r"const void* \1 = (", source)
    source = _ASSEMBLY.sub(_instruction, source)
    entries = [_entry(name, parameters) for name, parameters in launch_parameters.items()]
    return "\n".join(['#include "cuda_on_cpu.h"', source, *entries, ""])


def _instruction(statement: re.Match[str]) -> str:
    text = statement[1].strip()
    for pattern, replacement in _INSTRUCTIONS:
        if found := pattern.search(text):
            return replacement.format(*found.groups()) + "\n"
    if matrices := _matrix_instruction(text):
        return matrices + "\n"
    # An error of the compiler, because TVM's text also has branches for devices of other generations.
    quoted = json.dumps(f"inline assembly is not emulated, see {__name__}._INSTRUCTIONS: {text}")
    return f"static_assert(false, {quoted});\n"


def _matrix_instruction(text: str) -> str | None:
    """Statement of a warp's matrix instruction, None for other assembly."""
    outputs, inputs = _operands(text, "="), _operands(text, "")
    if found := _LOAD_MATRICES.search(text):
        transposed = "true" if found[1] else "false"
        loaded = f"emu::load_matrices<{transposed}>(__COUNTER__, {inputs[0]}, loaded);"
        return f"unsigned loaded[4]; {loaded} {_assigned(outputs, 'loaded')}"
    if found := _MULTIPLY.search(text):
        depth, sums = int(found[1]), "float" if found[2] == "f32" else "unsigned"
        left, right = depth // 4, depth // 4 + depth // 8
        arrays = (
            f"unsigned a[] = {{{', '.join(inputs[:left])}}}, b[] = {{{', '.join(inputs[left:right])}}}; "
            f"{sums} c[] = {{{', '.join(inputs[right:])}}};"
        )
        product = f"emu::multiply_tiles<{_ELEMENTS[found[3]]}, {depth}>(__COUNTER__, a, b, c);"
        return f"{{ {arrays} {product} {_assigned(outputs, 'c')} }}"
    return None


def _assigned(outputs: Sequence[str], array: str) -> str:
    return " ".join(f"{output} = {array}[{number}];" for number, output in enumerate(outputs))


def _operands(text: str, direction: str) -> list[str]:
    """Expressions of the operands in registers, for the direction "=" of outputs or "" of inputs."""
    found = []
    for match in re.finditer(rf'"{direction}[rf]"\(', text):
        depth, end = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        found.append(text[match.end() : end - 1])
    return found


def _entry(kernel: str, parameters: Sequence[str]) -> str:
    if unknown := set(parameters).difference(LAUNCH_PARAMETERS):
        raise NotEmulatedError(f"kernel {kernel}: launch parameters {sorted(unknown)} are not emulated")
    positions = ", ".join(str(LAUNCH_PARAMETERS.index(parameter)) for parameter in parameters)
    return f"EMU_KERNEL({kernel}, {positions})"
