"""Instruction scheduling by LLVM that takes a bounded time on long unrolled code.

Before LLVM orders the instructions of a basic block, it compares each memory access with up to a thousand
earlier ones. With two hundred, programs of a search take three quarters of the time to compile, and the
slowest tenth of them half of it. Four in five stay unchanged, and the others run as fast.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import tvm
import tvm_ffi
from tvm.target import Target

from ..tvm_compat import target_to_json

_BUILD = "target.build.llvm"
"""Global function by which TVM has LLVM compile a lowered module."""

OPTION = "-dag-maps-huge-region"
_ACCESSES = 200
"""Memory accesses of a basic block that LLVM keeps apart; it stands for 1000 on its own."""


def bound_scheduling() -> None:
    """Makes LLVM compile each module of this process with `with_bounded_scheduling` of its target."""
    build = tvm_ffi.get_global_func(_BUILD)

    def bounded(mod: tvm.IRModule, target: Target) -> Any:
        return build(mod, with_bounded_scheduling(target))

    tvm_ffi.register_global_func(_BUILD, bounded, override=True)


def with_bounded_scheduling(target: Target) -> Target:
    """An LLVM target with the option that bounds the scheduler; its own value of the option has priority."""
    return _bounded(target_to_json(target))


@lru_cache(maxsize=16)  # a process builds many modules for few targets
def _bounded(target: str) -> Target:
    described = json.loads(target)
    options = list(described.get("cl-opt", ()))
    if not any(option.startswith(OPTION) for option in options):
        options.append(f"{OPTION}:uint={_ACCESSES}")
    return Target({**described, "cl-opt": options})
