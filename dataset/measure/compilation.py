"""From a scheduled module to machine code: in memory, or as a library that another process loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tvm
from tvm.target import Target

HOST = Target("llvm")
"""The CPU that this process runs on, for programs whose speed does not matter."""

# Without the first, software-pipelined programs wait for copies that are never made asynchronous; without the
# second, most tensor-core programs that accumulate in a wider type do not compile.
_CUDA_PASSES = {"tirx.use_async_copy": True, "tirx.disable_storage_rewrite": True}


def load(module: str) -> tvm.IRModule:
    """A module from TVM's JSON."""
    return tvm.ir.load_json(module)


def compile_module(mod: tvm.IRModule, target: Target) -> Any:
    """TVM's executable of a scheduled module."""
    if target.kind.name == "llvm":
        return tvm.compile(mod, target=target)
    target = target if target.host else Target(target, host=HOST)
    passes = _CUDA_PASSES if target.kind.name == "cuda" else {}
    # CUDA's compiler asks for the architecture of the current target.
    with target, tvm.transform.PassContext(config=passes):
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
