"""The task: one subgraph to tune, sampled from operator settings or extracted from a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tvm
from tvm.s_tir.analysis import estimate_tir_flops

from .tvm_compat import workload_hash

CATEGORIES = ("pool", "norm", "attention", "elementwise", "other")
"""Operator types of network tasks without settings.

They are pools and norms that no operator describes, attention in blocks, tasks without a reduction, and all
the rest.
"""

UNTILED = ("attention", "elementwise")
"""Categories of tasks without a reduction to tile."""

ATTENTION_BLOCKS = ("attention_panels", "attention")
"""Names of the blocks of attention, in order: no other task has them."""

ALTERNATIVE = "alternative"
"""Source of a task that a network may call instead of its own."""


def operator_types() -> tuple[str, ...]:
    """Operator types a task may have: the registered operators, then CATEGORIES."""
    from .operators.registry import OPERATOR_SETTINGS  # imported late: operators import this module

    return (*OPERATOR_SETTINGS, *CATEGORIES)


@dataclass(frozen=True, eq=False)
class Task:
    """One fused subgraph with fixed shapes. Tasks with equal `workload_hash` are the same.

    Raises ValueError for an operator type or a weight that no task has.
    """

    name: str
    mod: tvm.IRModule
    """A module with one PrimFunc, not scheduled; the function is `main` except inside stock tuning."""
    weight: int
    """Calls in one inference of the network, 0 for a task outside it; 1 for a sampled operator."""
    source: str
    """"operator" for a sampled task, "network:<name>" for a task of a network, ALTERNATIVE for another way to
    compute a piece of one."""
    operator: str
    """One of `operator_types`."""
    settings: Mapping[str, Any]
    """JSON-able description of shapes and operator parameters."""
    flops: float
    """Operations of one unscheduled call, as `count_flops` counts them."""

    def __post_init__(self) -> None:
        if self.operator not in operator_types():
            raise ValueError(
                f"operator={self.operator!r} of task {self.name}: use one of {', '.join(operator_types())}"
            )
        if self.weight < 0:
            raise ValueError(
                f"weight={self.weight} of task {self.name}: give how often the network calls it, or 0 for a "
                "task outside the network"
            )

    @cached_property
    def workload_hash(self) -> str:
        """16 hexadecimal digits that name the task in records."""
        return workload_hash(self.mod)


def count_flops(mod: tvm.IRModule) -> float:
    """Arithmetic operations of one call of `mod`, a multiply-add counted as two (TVM's estimate)."""
    return float(estimate_tir_flops(mod))
