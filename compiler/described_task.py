"""Task of a module whose operator is read from its TIR."""

from __future__ import annotations

import tvm

from .operators.anchor import describe
from .task import Task, count_flops
from .tvm_compat import workload_hash


def described_task(mod: tvm.IRModule, name: str = "", weight: int = 1, source: str = "operator") -> Task:
    """The task of an unscheduled module, whose operator and settings are read from it.

    Without a `name` the task is named after its operator and its workload hash.
    """
    operator, settings = describe(mod)
    return Task(
        name=name or f"{operator}_{workload_hash(mod)}",
        mod=mod,
        weight=weight,
        source=source,
        operator=operator,
        settings=settings,
        flops=count_flops(mod),
    )
