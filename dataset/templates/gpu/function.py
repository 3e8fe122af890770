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
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as T

from ...operators.shared.tir import extents
from .problem import GpuTemplateError

if TYPE_CHECKING:
    from .compilation import Compiled
    from .matching import Match

KERNEL = "foretune.gpu_kernel"
"""Attribute of a function that launches a template: name, assembly and arguments of the kernel as JSON."""

_ENTRY = re.compile(r"(\.entry\s+)(\w+)(\s*\()([^)]*)\)")
_WARP = 32
_BLOCKS = ("blockIdx.x", "blockIdx.y", "blockIdx.z")


def kernel_function(func: tirx.PrimFunc, match: Match, template: Compiled) -> tirx.PrimFunc:
    """A function with the parameters of `func` that launches a template for what `func` computes."""
    problem, tiling = match.problem, template.tiling
    name, assembly, taken = _named(template.assembly)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        arrays = [
            T.arg(f"p{number}", T.buffer(extents(array), str(array.dtype)))
            for number, array in enumerate(func.params)
        ]
        passed = problem.passed([arrays[number] for number in match.parameters])
        pointers = [array.data for array in passed]
        sizes = [tirx.const(size, "int32") for size in problem.sizes.values()]
        # Triton adds pointers to memory that only kernels for debugging or of clusters use.
        unused = [tirx.const(0, "int64")] * (taken - len(pointers) - len(sizes))
        launch = {
            "threadIdx.x": _WARP * tiling.warps,
            **dict(zip(_BLOCKS, problem.grid(tiling), strict=False)),
        }
        if template.shared_bytes:
            launch["tirx.use_dyn_shared_memory"] = template.shared_bytes
        launched = [tirx.const(extent, "int32") for extent in launch.values()]
        # Passes of a network look for a block below the root.
        with T.sblock("root"), T.sblock("launch"):
            T.reads(*map(_whole, arrays[:-1]))
            T.writes(_whole(arrays[-1]))
            T.evaluate(tirx.call_packed(name, *pointers, *sizes, *unused, *launched))
    kernel = {
        "name": name,
        "assembly": assembly,
        "types": ["handle"] * len(pointers) + ["int32"] * len(sizes) + ["int64"] * len(unused),
        "launch": list(launch),
    }
    made = builder.get().with_attr("tirx.is_scheduled", True).with_attr("tirx.noalias", True)
    return made.with_attr("global_symbol", "main").with_attr(KERNEL, json.dumps(kernel))


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
    return isinstance(func, tirx.PrimFunc) and func.attrs is not None and KERNEL in func.attrs


def kernel_modules(mod: tvm.IRModule) -> list[tvm.runtime.Module]:
    """CUDA modules of the kernels that functions of a module launch, each once, to be imported with it.

    Raises GpuTemplateError where TVM has no CUDA runtime.
    """
    texts = {str(func.attrs[KERNEL]) for func in mod.functions.values() if launches_template(func)}
    return [_module(json.loads(text)) for text in sorted(texts)]


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
