"""Tensor intrinsics of the pinned TVM, imported without reading source files."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType

_PACKAGE = "tvm.s_tir.tensor_intrin"


@contextmanager
def _stack_without_source() -> Iterator[None]:
    """Make `inspect.stack` skip the source context, which TVM's decorators do not use."""

    def stack(context: int = 1) -> list[inspect.FrameInfo]:
        frames = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            frames.append(
                inspect.FrameInfo(frame, code.co_filename, frame.f_lineno, code.co_name, None, None)
            )
            frame = frame.f_back
        return frames

    original = inspect.stack
    inspect.stack = stack
    try:
        yield
    finally:
        inspect.stack = original


@cache
def load_tensor_intrinsics() -> None:
    """Import TVM's tensor intrinsics, which tune contexts need, and register the intrinsics that TVM lacks.

    Each of their decorators calls `inspect.stack`, which reads source files and takes 20-37 s in total.
    Without source context, the import takes 2 s. After `load_cpu_intrinsics(alone=True)` it adds
    nothing.
    """
    with _stack_without_source():
        importlib.import_module(_PACKAGE)
        if f"{_PACKAGE}.cuda" in sys.modules:
            from .tensor_cores import register_tensor_core_intrinsics

            register_tensor_core_intrinsics()


def load_cpu_intrinsics(*, alone: bool = False) -> None:
    """Import only the intrinsics of CPUs, unless all are there; saves 2 s.

    The package's `__init__` imports the intrinsics of all devices, and those of CUDA take nearly all of the
    time. Here it does not run, and the modules of CPUs are imported directly.

    `alone` is for a process that tunes only for CPUs: TVM's later imports of the package add nothing.
    Otherwise they import the other devices.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    if _PACKAGE in sys.modules or spec is None:
        return
    sys.modules[_PACKAGE] = importlib.util.module_from_spec(spec)
    with _stack_without_source():
        for device in ("x86", "arm_cpu", "riscv_cpu"):
            importlib.import_module(f"{_PACKAGE}.{device}")
    if not alone:
        del sys.modules[_PACKAGE]
