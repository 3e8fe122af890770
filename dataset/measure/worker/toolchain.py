"""Detection of the CUDA compiler: NVRTC or nvcc."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tvm.target import Target

from ....compiler.targets import is_cuda
from ..config import ExecutorConfigError

_USUAL_TOOLKIT = Path("/usr/local/cuda")


def compiler_environment(target: Target, cuda_compiler: str) -> dict[str, str]:
    """Environment of a process that compiles for `target`; raises ExecutorConfigError without a compiler."""
    environment = {"TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    if not is_cuda(target):
        return environment
    # A compiler process must not use GPU memory or disturb a GPU that is timing.
    return {**environment, **cuda_environment(cuda_compiler), "CUDA_VISIBLE_DEVICES": ""}


def cuda_environment(compiler: str) -> dict[str, str]:
    """Environment in which TVM finds its CUDA compiler (`nvcc`, `nvrtc` or `auto`) and CUDA libraries.

    `auto` selects NVRTC if it is installed, because it starts no process and compiles in half of nvcc's time.
    """
    toolkit = _toolkit_with("include/cuda_fp16.h")
    if compiler in ("auto", "nvrtc") and toolkit is not None and _has_nvrtc():
        return {
            "TVM_CUDA_COMPILE_MODE": "nvrtc",
            "CUDA_PATH": str(toolkit),
            "TVM_CUDA_NVRTC_EXTRA_OPTS": f"-I{toolkit / 'include' / 'cccl'}",
            "LD_LIBRARY_PATH": _prepended("LD_LIBRARY_PATH", toolkit / "lib64"),
        }
    toolkit = _toolkit_with("bin/nvcc")
    if compiler in ("auto", "nvcc") and toolkit is not None:
        return {
            "TVM_CUDA_COMPILE_MODE": "nvcc",
            "CUDA_PATH": str(toolkit),
            "PATH": _prepended("PATH", toolkit / "bin"),
            "LD_LIBRARY_PATH": _prepended("LD_LIBRARY_PATH", toolkit / "lib64"),
        }
    raise ExecutorConfigError(
        f"executor.cuda_compiler={compiler}: not found; install the CUDA 13 toolkit (nvcc) and set CUDA_PATH "
        "to its folder, or `pip install cuda-bindings nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-cccl "
        "nvidia-cuda-crt`"
    )


def _has_nvrtc() -> bool:
    try:
        return find_spec("cuda.bindings.nvrtc") is not None
    except ModuleNotFoundError:
        return False


def _toolkit_with(file: str) -> Path | None:
    """First folder of a CUDA toolkit that contains a file."""
    return next((toolkit for toolkit in _toolkits() if (toolkit / file).is_file()), None)


def _toolkits() -> Iterator[Path]:
    if path := os.environ.get("CUDA_PATH"):
        yield Path(path)
    if nvcc := shutil.which("nvcc"):
        yield Path(nvcc).resolve().parents[1]
    yield _USUAL_TOOLKIT
    if (packages := find_spec("nvidia")) is not None:
        for location in packages.submodule_search_locations or ():
            yield Path(location) / "cu13"


def _prepended(variable: str, folder: Path) -> str:
    """Search path of `variable` with a folder prepended."""
    return os.pathsep.join(filter(None, (str(folder), os.environ.get(variable))))
