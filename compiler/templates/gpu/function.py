"""TVM functions that launch compiled templates in place of a task's own loops.

A function carries its kernel as text, so that it is stored and sent like any other. Making one needs neither
a GPU nor Triton; to compile it, TVM's CUDA runtime must be there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import tvm
from tvm import tirx
from tvm.s_tir.stmt import SBlockRealize
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as T

from ...operators.shared.tir import extents
from .launches import WORKSPACE, Launch
from .problem import GpuTemplateError

if TYPE_CHECKING:
    from .compilation import Compiled, Kernel
    from .matching import Match

KERNELS = "foretune.gpu_kernel"
"""Attribute of a function that launches a template: name, assembly and arguments of each kernel as JSON."""

_ENTRY = re.compile(r"(\.entry\s+)(\w+)(\s*\()([^)]*)\)")
_NAME = re.compile(r"foretune_\w+_[0-9a-f]{12}")
_ATTRIBUTES = {"s_tir", "tirx.is_scheduled", "tirx.noalias", "global_symbol", KERNELS}
_WARP = 32
_BLOCKS = ("blockIdx.x", "blockIdx.y", "blockIdx.z")


def kernel_function(func: tirx.PrimFunc, match: Match, template: Compiled) -> tirx.PrimFunc:
    """A function with the parameters of `func` that launches a template for what `func` computes.

    A template of several kernels has one more parameter: its workspace, before the output.
    """
    problem, tiling = match.problem, template.tiling
    shape, launches, kernels = problem.workspace(tiling), problem.launches(tiling), []
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        *given, last = func.params
        inputs = [
            T.arg(f"p{number}", T.buffer(extents(array), str(array.dtype)))
            for number, array in enumerate(given)
        ]
        workspace = None if shape is None else T.arg("workspace", T.buffer(list(shape), "float32"))
        output = T.arg("output", T.buffer(extents(last), str(last.dtype)))
        arrays = [*inputs, output]
        named = dict(zip(problem.pointers, (arrays[n] for n in match.parameters), strict=True))
        written = [output] if workspace is None else [workspace, output]
        if workspace is not None:
            named[WORKSPACE] = workspace
        # Passes of a network look for a block below the root.
        with T.sblock("root"), T.sblock("launch"):
            T.reads(*map(_whole, inputs))
            T.writes(*map(_whole, written))
            for launch, kernel in zip(launches, template.kernels, strict=True):
                kernels.append(_launched(launch, kernel, named))
    made = builder.get().with_attr("tirx.is_scheduled", True).with_attr("tirx.noalias", True)
    return made.with_attr("global_symbol", "main").with_attr(KERNELS, json.dumps(kernels))


def _launched(launch: Launch, kernel: Kernel, arrays: Mapping[str, tirx.Buffer]) -> dict[str, Any]:
    """Emits the launch of a kernel; returns what its module is made of."""
    name, assembly, taken = _named(kernel.assembly)
    pointers = [array.data for array in launch.passed(arrays)]
    sizes = [tirx.const(size, "int32") for size in launch.sizes.values()]
    # Triton adds pointers to memory that only kernels for debugging or of clusters use.
    unused = [tirx.const(0, "int64")] * (taken - len(pointers) - len(sizes))
    extent = {"threadIdx.x": _WARP * launch.warps, **dict(zip(_BLOCKS, launch.grid, strict=False))}
    if kernel.shared_bytes:
        extent["tirx.use_dyn_shared_memory"] = kernel.shared_bytes
    launched = [tirx.const(value, "int32") for value in extent.values()]
    T.evaluate(tirx.call_packed(name, *pointers, *sizes, *unused, *launched))
    return {
        "name": name,
        "assembly": assembly,
        "types": ["handle"] * len(pointers) + ["int32"] * len(sizes) + ["int64"] * len(unused),
        "launch": list(extent),
    }


def _whole(array: tirx.Buffer) -> tirx.BufferRegion:
    return array[tuple(slice(0, extent) for extent in extents(array))]


def _named(assembly: str) -> tuple[str, str, int]:
    """A name that no other kernel has, the assembly with it, and the number of the kernel's parameters."""
    entry = _ENTRY.search(assembly)
    if entry is None:
        raise GpuTemplateError("the assembly of a template has no entry; use another version of Triton")
    name = f"foretune_{entry[2]}_{sha256(assembly.encode()).hexdigest()[:12]}"
    renamed = assembly[: entry.start(2)] + name + assembly[entry.end(2) :]
    return name, renamed, entry[4].count(".param")


def launches_template(func: Any) -> bool:
    """Whether a function is one of `kernel_function`."""
    return isinstance(func, tirx.PrimFunc) and func.attrs is not None and KERNELS in func.attrs


def check_launches(func: tirx.PrimFunc) -> None:
    """Raises ValueError for a function that does anything but launch the kernels that it carries.

    Functions of `kernel_function` pass; others may call any function of the process.
    """
    named = [str(kernel["name"]) for kernel in _kernels(str(func.attrs[KERNELS]))]
    if not all(_NAME.fullmatch(name) for name in named) or set(func.attrs.keys()) - _ATTRIBUTES:
        raise ValueError("its function has other kernels or attributes than a template")
    body: Any = func.body
    for _ in ("root", "launch"):
        block = body.block if isinstance(body, SBlockRealize) else None
        if block is None or block.init is not None or [*block.alloc_buffers, *block.match_buffers]:
            raise ValueError("its function is not only a launch")
        body = block.body
    for statement in body.seq if isinstance(body, tirx.SeqStmt) else [body]:
        call = statement.value if isinstance(statement, tirx.Evaluate) else None
        if not isinstance(call, tvm.ir.Call) or call.op.name != "tirx.tvm_call_packed":
            raise ValueError("its function is not only a launch")
        callee, *arguments = call.args
        if not isinstance(callee, tvm.ir.StringImm) or callee.value not in named:
            raise ValueError(f"its function calls {callee!s:.40}, which is none of its kernels")
        if not all(isinstance(argument, tirx.IntImm) or _is_pointer(argument) for argument in arguments):
            raise ValueError("its function computes arguments of its kernels")


def _is_pointer(argument: Any) -> bool:
    return isinstance(argument, tvm.ir.Call) and argument.op.name == "tirx.buffer_data"


def kernel_modules(mod: tvm.IRModule) -> list[tvm.runtime.Module]:
    """CUDA modules of the kernels that functions of a module launch, each once, to be imported with it.

    Raises GpuTemplateError where TVM has no CUDA runtime.
    """
    texts = {str(func.attrs[KERNELS]) for func in mod.functions.values() if launches_template(func)}
    kernels = {kernel["name"]: kernel for text in texts for kernel in _kernels(text)}
    return [_module(kernels[name]) for name in sorted(kernels)]


def _kernels(text: str) -> list[dict[str, Any]]:
    """Kernels of the attribute. Functions of databases that were made before there were several have one."""
    read = json.loads(text)
    return [read] if isinstance(read, dict) else read


def _module(kernel: Mapping[str, Any]) -> tvm.runtime.Module:
    functions = {
        kernel["name"]: {
            "name": kernel["name"],
            "arg_types": kernel["types"],
            "launch_param_tags": kernel["launch"],
        }
    }
    described = json.dumps({"tvm_version": tvm.__version__, "func_info": functions})
    read, create = (
        tvm.get_global_func(name, allow_missing=True)
        for name in ("runtime.LoadMetaDataFromJSON", "ffi.Module.create.cuda")
    )
    if read is None or create is None:
        raise GpuTemplateError(
            "a template for a GPU is compiled where TVM finds the CUDA runtime (libcudart.so.13); install "
            "it, or use search.templates=0"
        )
    return create(kernel["assembly"].encode(), "ptx", read(described), {})
