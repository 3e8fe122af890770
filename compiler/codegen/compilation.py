"""Compilation of a scheduled module, in memory or to a library that another process loads.

A program may choose the layout of its constant weights (`OperatorSettings.prepack`); its module then starts
with the layout change. A compiled network does this change once at build time, so the timed entry leaves it
out and takes the weights in the new layout. A comparison with the unscheduled program needs a second entry
that takes the weights in the task's layout.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tvm
from tvm.target import Target

from ...errors import UserError
from ..spaces.async_copies import check_copies
from ..targets import is_cpu, is_cuda
from ..templates.gpu.function import kernel_modules
from ..tvm_compat import (
    CUDA_PASSES,
    argument_buffers,
    has_mma_fragments,
    load_tensor_intrinsics,
    named_main,
    without_layout_change,
)
from ..tvm_compat.cuda_text import CALLBACK, compile_without_headers
from .linker import linker
from .passes import improve_code

HOST = Target("llvm")
"""CPU of this process, for programs whose speed does not matter."""

# Programs need no checks of their arguments, as `Bench` makes these. LLVM takes 50 ms to compile the checks,
# a seventh of the compile time of a typical program.
_UNCHECKED = {"tirx.disable_assert": True}


TIMED, CHECKED = "main", "checked"
"""Entries of a library. CHECKED exists only if it was requested and differs from TIMED."""


class NoKernelError(UserError, ValueError):
    """A program for a GPU has no kernel."""


def entries(mod: tvm.IRModule, checked: bool) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Module to compile for a scheduled module, and the shape and dtype of each argument by entry.

    With `checked`, the module has an entry whose outputs can be compared.
    """
    mod = named_main(mod)
    buffers = {TIMED: argument_buffers(mod)}
    timed = without_layout_change(mod)
    if timed is mod:
        return mod, buffers
    functions = {TIMED: timed["main"]}
    if checked:
        functions[CHECKED] = mod["main"].with_attr("global_symbol", CHECKED)
        buffers[CHECKED] = argument_buffers(mod, task_layout=True)
    return tvm.IRModule(functions), buffers


def compile_module(mod: tvm.IRModule, target: Target, *, checked: bool = False) -> Any:
    """Compile a scheduled module to TVM's executable, with what `improve_code` adds.

    With `checked`, code for a CPU checks its arguments. Raises WrongCopyError for a program that TVM would
    compile to wrong code, and NoKernelError for one of a GPU without a kernel, as unscheduled ones are: a CPU
    that reads the GPU's memory loses its process.
    """
    improve_code()
    if is_cpu(target):
        with tvm.transform.PassContext(config={} if checked else _UNCHECKED):
            return tvm.compile(mod, target=target)
    target = target if target.host else Target(target, host=HOST)
    templates = kernel_modules(mod)
    if has_mma_fragments(mod):
        load_tensor_intrinsics()
    if not templates:
        check_copies(mod, target)
    passes = {}
    if is_cuda(target):
        passes = CUDA_PASSES
        compile_without_headers()
    # CUDA's compiler asks for the architecture of the current target.
    with target, tvm.transform.PassContext(config={**_UNCHECKED, **passes}):
        executable = tvm.compile(mod, target=target)
    for template in templates:
        executable.mod.import_module(template)
    if not executable.mod.imports:
        raise NoKernelError(
            f"target={target.kind.name}: the program has no kernel; bind its loops to threads"
        )
    return executable


def jit(mod: tvm.IRModule, target: Target) -> tvm.runtime.Module:
    """Compile a module to a library in this process's memory."""
    return compile_module(mod, target).jit()


def export(mod: tvm.IRModule, target: Target, path: Path) -> Any:
    """Compile a module and write the shared library to `path`; returns the executable. Raises LinkerError."""
    executable = compile_module(mod, target)
    executable.export_library(str(path), fcompile=linker(target))
    return executable


def compile_cuda_source(executable: Any, target: Target) -> None:
    """Compile an executable's CUDA source, which TVM leaves as text if there is no CUDA driver."""
    compile_without_headers()
    compiler = tvm.get_global_func(CALLBACK)
    for module in executable.mod.imports:
        if module.kind == "cuda":
            with target:
                compiler(module.inspect_source())
