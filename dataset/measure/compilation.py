"""From a scheduled module to machine code: in memory, or as a library that another process loads.

A program may choose the layout of its constant weights (`OperatorSettings.prepack`); its module then begins
by bringing them into that layout. That is done once, when a network is compiled, so the code to time goes
without it and takes weights as they are then. Code that is to be checked, too, has a second entry that takes
weights as the task has them, since only that can be compared with the unscheduled program.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tvm
from tvm.target import Target

from ..tvm_compat import argument_buffers, without_layout_change
from ..vector_math import vectorise_math

HOST = Target("llvm")
"""The CPU that this process runs on, for programs whose speed does not matter."""

# Without the first, software-pipelined programs wait for copies that are never made asynchronous; without the
# second, most tensor-core programs that accumulate in a wider type do not compile.
_CUDA_PASSES = {"tirx.use_async_copy": True, "tirx.disable_storage_rewrite": True}

# A program that is only timed need not check its arguments, which `Bench` makes for it. LLVM takes 50 ms for
# the checks, a seventh of what it takes for a typical program.
_UNCHECKED = {"tirx.disable_assert": True}


TIMED, CHECKED = "main", "checked"
"""Entries of a library: the second is there where it differs from the first, and is asked for."""


def load(module: str) -> tvm.IRModule:
    """A module from TVM's JSON."""
    return tvm.ir.load_json(module)


def entries(mod: tvm.IRModule, checked: bool) -> tuple[tvm.IRModule, dict[str, Any]]:
    """What to compile of a scheduled module, and the shape and dtype of each argument by entry.

    `checked` says whether outputs are to be compared.
    """
    buffers = {TIMED: argument_buffers(mod)}
    timed = without_layout_change(mod)
    if timed is mod:
        return mod, buffers
    functions = {TIMED: timed["main"]}
    if checked:
        functions[CHECKED] = mod["main"].with_attr("global_symbol", CHECKED)
        buffers[CHECKED] = argument_buffers(mod, as_given=True)
    return tvm.IRModule(functions), buffers


def compile_module(mod: tvm.IRModule, target: Target) -> Any:
    """TVM's executable of a scheduled module, its functions vectorised (`vectorise_math`)."""
    vectorise_math()
    if target.kind.name == "llvm":
        with tvm.transform.PassContext(config=_UNCHECKED):
            return tvm.compile(mod, target=target)
    target = target if target.host else Target(target, host=HOST)
    passes = _CUDA_PASSES if target.kind.name == "cuda" else {}
    # CUDA's compiler asks for the architecture of the current target.
    with target, tvm.transform.PassContext(config={**_UNCHECKED, **passes}):
        return tvm.compile(mod, target=target)


def jit(mod: tvm.IRModule, target: Target) -> tvm.runtime.Module:
    """A library in this process's memory."""
    return compile_module(mod, target).jit()


def export(mod: tvm.IRModule, target: Target, path: Path) -> Any:
    """Writes a shared library that `tvm.runtime.load_module` reads; returns the executable."""
    executable = compile_module(mod, target)
    executable.export_library(str(path))
    return executable


def compile_cuda_source(executable: Any, target: Target) -> None:
    """Compiles the CUDA code of an executable that TVM left as text, as it does where there is no driver."""
    compiler = tvm.get_global_func("tvm_callback_cuda_compile")
    for module in executable.mod.imports:
        if module.kind == "cuda":
            with target:
                compiler(module.inspect_source())
