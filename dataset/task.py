"""The task: what is tuned, whether it was sampled from operator settings or cut out of a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tvm
from tvm.s_tir.analysis import estimate_tir_flops

from .tvm_compat import workload_hash

OPERATORS = (
    "conv2d",
    "depthwise_conv2d",
    "dense",
    "batch_matmul",
    "conv1d",
    "group_conv2d",
    "conv3d",
    "group_conv3d",
    "conv1d_transpose",
    "conv2d_transpose",
    "capsule_conv2d",
    "conv2d_winograd",
    "softmax",
    "layer_norm",
    "batch_norm",
    "group_norm",
    "frobenius_norm",
    "pool2d",
    "reduction",
    "pool",
    "norm",
    "elementwise",
    "other",
)
"""Operator types a task may have. The last four are of networks alone: pools and norms that are none of the
above, tasks without a reduction, and all the rest.
"""


@dataclass(frozen=True, eq=False)
class Task:
    """One fused subgraph with fixed shapes. Two tasks are the same where their `workload_hash` is."""

    name: str
    mod: tvm.IRModule
    """A module with one PrimFunc, `main`, not scheduled."""
    weight: int
    """How often the network calls it; 1 for a sampled operator."""
    source: str
    """"operator" for a sampled task, "network:<name>" for a task of a network."""
    operator: str
    """One of OPERATORS."""
    settings: Mapping[str, Any]
    """JSON-able description of shapes and operator parameters."""
    flops: float
    """Operations of one unscheduled call, as `count_flops` counts them."""

    def __post_init__(self) -> None:
        if self.operator not in OPERATORS:
            raise ValueError(
                f"operator={self.operator!r} of task {self.name}: use one of {', '.join(OPERATORS)}"
            )
        if self.weight < 1:
            raise ValueError(f"weight={self.weight} of task {self.name}: a task is called at least once")

    @cached_property
    def workload_hash(self) -> str:
        """16 hex digits that name the task in records."""
        return workload_hash(self.mod)


def count_flops(mod: tvm.IRModule) -> float:
    """Arithmetic operations of one call of `mod`, a multiply-add counted as two (TVM's estimate)."""
    return float(estimate_tir_flops(mod))
