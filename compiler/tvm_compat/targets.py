"""Targets of the pinned TVM: CPUs with their features, GPUs, and the thread pool."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import tvm
import tvm_ffi
from tvm.target import Target
from tvm.target.codegen import llvm_get_cpu_features
from tvm.tirx import PrimFunc

from ...errors import UserError
from ..host.threads import available_cores
from ..targets import is_cpu, traits
from .host_cpu import host_cpu, host_features, is_instruction_set


class UnknownTargetError(UserError, ValueError):
    """The target is not supported by this TVM."""


def this_machine(kind: str = "llvm") -> Target:
    """Target of this machine: its CPU with all cores and instruction sets, or its GPU with kind="cuda".

    TVM's own "llvm" names neither cores nor instruction sets, and MetaSchedule refuses it.
    Raises UnknownTargetError.
    """
    return parse_target(kind)


def parse_target(spec: str | Mapping[str, Any] | Target) -> Target:
    """Parse `llvm`, `cuda`, a TVM tag such as `nvidia/nvidia-a100`, a JSON object or a mapping into a target.

    `llvm` alone means this machine's CPU with its core count and exactly its instruction sets, `cuda` alone
    the device that TVM detects. The variable FORETUNE_CPU names an older CPU in place of this machine's.
    Raises UnknownTargetError, OlderCpuError.
    """
    if isinstance(spec, Target):
        return spec
    try:
        if isinstance(spec, str) and spec.lstrip().startswith("{"):
            spec = json.loads(spec)
        if spec == "llvm":
            spec = {"kind": "llvm", "mcpu": host_cpu(), "num-cores": available_cores()}
            named = Target(spec)
            unlike = [f"+{name}" for name in _unnamed_instruction_sets(named)]
            unlike += [f"-{name}" for name in missing_instruction_sets(named)]
            if unlike:
                spec["mattr"] = unlike
        elif spec == "cuda":
            if not tvm.cuda().exist:
                raise UnknownTargetError(
                    "target=cuda: no CUDA device here; name one, as in target=nvidia/nvidia-a100, to only "
                    "generate code, or use target=llvm"
                )
            return Target.from_device(tvm.cuda())
        return Target(dict(spec) if isinstance(spec, Mapping) else spec)
    except UserError:  # among them a FORETUNE_CPU that cannot be
        raise
    except Exception as error:  # TVM reports bad targets as ValueError, TypeError or InternalError
        reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        raise UnknownTargetError(
            f"target={spec!r}: not supported by TVM {tvm.__version__} ({reason}); use llvm, cuda, a "
            'tag such as nvidia/nvidia-a100, or a JSON object such as {"kind": "llvm", "mcpu": "znver3", '
            '"num-cores": 2}'
        ) from error


def cpu_target(func: PrimFunc) -> Target | None:
    """Target that a function is lowered for; None where that is no CPU, or not known yet."""
    target = func.attrs.get("target") if func.attrs is not None else None
    return target if target is not None and is_cpu(target) else None


def target_cores(target: Target) -> int:
    """Number of CPU cores that programs of a target use: its num-cores, else all cores of this process."""
    return traits(target).cores


def missing_instruction_sets(target: Target) -> list[str]:
    """Instruction sets that generated code of a CPU target may use and this machine's CPU lacks.

    Code that uses one ends the process. Raises OlderCpuError.
    """
    here = host_features()
    return sorted(
        name
        for name in map(str, llvm_get_cpu_features(target))
        if is_instruction_set(name) and not here.get(name, True)
    )


def runs_here(target: Target) -> bool:
    """Whether this machine's CPU runs code of the target. Raises OlderCpuError."""
    if target.kind.name != "llvm":
        return False
    machine = str(target.attrs.get("mtriple", platform.machine())).split("-")[0]
    return machine == platform.machine() and not missing_instruction_sets(target)


def _unnamed_instruction_sets(target: Target) -> list[str]:
    """Instruction sets of this machine's CPU that a CPU target lacks.

    LLVM names a CPU by its model number. A virtual machine may make that up, or hide instruction sets that
    the CPU of this name has. AVX10 is a name for others.
    """
    lacking = {name for name, is_there in host_features().items() if is_there}
    lacking -= set(map(str, llvm_get_cpu_features(target)))
    return sorted(n for n in lacking if is_instruction_set(n) and not n.startswith("avx10"))


_SHARE_ALL_CORES = -3
"""TVM's affinity mode in which all threads of a pool may use all given cores."""


def configure_thread_pool(threads: int, cores: Sequence[int]) -> int:
    """Gives the calling thread's pool `threads` threads, all of which may run on any of `cores`.

    Makes the pool if it does not exist yet. A pool never grows; returns the threads that it uses.
    """
    count = tvm_ffi.get_global_func("runtime.NumThreads")
    with _environment(TVM_NUM_THREADS=str(threads), TVM_BIND_THREADS="1"):
        count()  # makes the pool
        tvm_ffi.get_global_func("runtime.config_threadpool")(
            _SHARE_ALL_CORES, threads, [str(core) for core in cores]
        )
    return int(count())


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Environment variables that TVM reads within the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def target_to_json(target: Target) -> str:
    """Canonical JSON of a target, as in records; `parse_target` reads it."""
    return json.dumps(json.loads(str(target)), sort_keys=True)
