"""Compilation of TVM's CUDA text by NVRTC without the headers that it does not use.

TVM includes `<cuda/std/cstdint>`, `<cuda/std/limits>` and `<cuda/std/type_traits>` in every text. They take
380 ms of CPU time, and the text of a small program 50 ms. It needs only fixed-width integers and INFINITY of
them. What compiles only with TVM's headers is left to TVM.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm.support import nvcc
from tvm.target import Target

CALLBACK = "tvm_callback_cuda_compile"
"""Function that TVM calls with a CUDA text; it gives the binary."""

_TVM_HEADERS = re.compile(r"#ifdef __CUDACC_RTC__\n.*?#else\n.*?#include <cuda\.h>\n#endif\n", re.DOTALL)
_TYPES = """\
typedef signed char int8_t; typedef unsigned char uint8_t;
typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t;
typedef long long int64_t; typedef unsigned long long uint64_t;
#define __asm__ asm
#define __volatile__ volatile
#define INFINITY __int_as_float(0x7f800000)
"""
_FLAGS = (
    *("-default-device", "--device-int128", "--use_fast_math"),
    *(f"-D__NV_SILENCE_{side}DEPRECATION_{end}=" for side in ("", "HOST_") for end in ("BEGIN", "END")),
    *(
        f"-U__CUDA_NO_{kind}__"
        for kind in (
            *("HALF_OPERATORS", "HALF_CONVERSIONS", "BFLOAT16_OPERATORS"),
            *("BFLOAT16_CONVERSIONS", "BFLOAT162_OPERATORS", "BFLOAT162_CONVERSIONS"),
        )
    ),
)


@cache
def compile_without_headers() -> None:
    """Make this process compile CUDA texts that way, if it compiles with NVRTC."""
    stock = tvm.get_global_func(CALLBACK)
    tvm_ffi.register_global_func(CALLBACK, _light_or(stock), override=True)


def _light_or(stock: Callable[[str], Any]) -> Callable[[str], Any]:
    def compile_text(text: str) -> Any:
        if os.environ.get("TVM_CUDA_COMPILE_MODE", "nvrtc").lower() == "nvrtc":
            light = without_headers(text)
            binary = None if light is None else nvrtc_binary(light)
            if binary is not None:
                return binary
        return stock(text)

    return compile_text


def without_headers(text: str) -> str | None:
    """CUDA text of TVM with type definitions in place of its headers; None if it does not begin with them."""
    light, replaced = _TVM_HEADERS.subn(_TYPES, text, count=1)
    return light if replaced and "CUtensorMap" not in light and "nvshmem" not in light else None


def nvrtc_binary(text: str) -> bytearray | None:
    """Binary of a CUDA text for the current target, with TVM's options; None if it does not compile."""
    from cuda.bindings import nvrtc  # optional

    failed, program = nvrtc.nvrtcCreateProgram(text.encode(), b"tvm_kernels.cu", 0, None, None)
    if failed:
        return None
    options = [option.encode() for option in _options()]
    try:
        if nvrtc.nvrtcCompileProgram(program, len(options), options)[0]:
            return None
        failed, size = nvrtc.nvrtcGetCUBINSize(program)
        binary = bytearray(size)
        return None if failed or nvrtc.nvrtcGetCUBIN(program, binary)[0] else binary
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _options() -> list[str]:
    """Options of `tvm.support.nvcc.compile_cuda` for NVRTC."""
    version = nvcc.get_target_compute_version(Target.current(allow_none=True))
    toolkit = Path(nvcc.find_cuda_path())
    folders = [toolkit / "include", *toolkit.glob("targets/*/include")]
    folders += [folder / "cccl" for folder in folders]
    return [
        f"--gpu-architecture=sm_{version.replace('.', '')}",
        *(f"-I{folder}" for folder in folders if folder.is_dir()),
        *_FLAGS,
        *(f"--ptxas-options={flag}" for flag in nvcc._ptxas_option_flags()),
        *os.environ.get("TVM_CUDA_NVRTC_EXTRA_OPTS", "").split(),
    ]
