"""Random CUDA programs of MetaSchedule's space, and the outputs that they should have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import tvm
from foretune.compiler.operators import (
    BatchMatmul,
    Conv2d,
    Dense,
    DepthwiseConv2d,
    OperatorSettings,
    Softmax,
    to_task,
)
from foretune.compiler.replay import RejectedError, candidate_trace_json, instantiate
from foretune.compiler.task import Task
from foretune.compiler.tvm_compat import MMA, WMMA, design_spaces, make_tune_context, tensor_core_way
from foretune.inference.spaces.stock import StockSpace
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace

from .cuda_emulation.target import TARGET
from .operators import EXAMPLES, as_array, random_inputs, run

_DRAWS = 400
"""Draws for each wanted program: most are rejected, as they exceed what a GPU has."""

DIVISIBLE = [
    Dense(rows=32, in_features=64, out_features=32, epilogue="bias_relu"),
    Dense(rows=32, in_features=64, out_features=32, dtype="float16"),
    Dense(rows=32, in_features=64, out_features=32, dtype="int8"),
    BatchMatmul(batch=2, rows=16, inner=32, columns=16),
    Conv2d(
        batch=1,
        in_channels=16,
        height=8,
        width=8,
        out_channels=16,
        kernel=(3, 3),
        padding=(1, 1),
        layout="NHWC",
    ),
    DepthwiseConv2d(batch=1, in_channels=16, height=8, width=8, kernel=(3, 3), padding=(1, 1)),
    Softmax(rows=16, columns=64),
]
"""Tasks whose extents have many divisors, so that programs use vectors, pipelines and tensor cores."""

OPERATORS: Mapping[str, OperatorSettings] = {
    **EXAMPLES,
    **{f"{op.operator}-{op.dtype}-{op.label}": op for op in DIVISIBLE},
}


TENSOR_CORES: Mapping[str, OperatorSettings] = {
    "dense float16": Dense(rows=64, in_features=64, out_features=32, dtype="float16", epilogue="bias_relu"),
    "dense bfloat16": Dense(rows=64, in_features=64, out_features=32, dtype="bfloat16", epilogue="bias_gelu"),
    "dense int8": Dense(rows=32, in_features=64, out_features=32, dtype="int8", epilogue="bias"),
    "dense float16, padded": Dense(rows=50, in_features=72, out_features=90, dtype="float16"),
    "dense bfloat16, padded": Dense(
        rows=50, in_features=72, out_features=90, dtype="bfloat16", epilogue="bias"
    ),
    "batch_matmul bfloat16, transposed": BatchMatmul(
        batch=2, rows=32, inner=32, columns=48, dtype="bfloat16", transpose_right=True
    ),
    "conv2d float16": Conv2d(
        batch=1,
        in_channels=16,
        height=8,
        width=8,
        out_channels=32,
        kernel=(3, 3),
        padding=(1, 1),
        dtype="float16",
        layout="NHWC",
        epilogue="bias_relu",
    ),
}
"""Products that tensor cores compute, with epilogues, extents to pad and batches, and a convolution."""

KINDS = (
    ("dense float16", WMMA),
    ("dense bfloat16", WMMA),
    ("dense int8", WMMA),
    ("dense float16", MMA),
    ("dense bfloat16", MMA),
)
"""Kinds of programs for tensor cores: a product and the instructions."""

OTHER_KINDS = (
    ("dense float16, padded", WMMA),
    ("dense bfloat16, padded", WMMA),
    ("batch_matmul bfloat16, transposed", WMMA),
    ("conv2d float16", WMMA),
    ("conv2d float16", MMA),
)


@dataclass(frozen=True)
class Prepared:
    """Task with inputs and the output of its unscheduled program."""

    task: Task
    inputs: list[np.ndarray]
    expected: np.ndarray

    @classmethod
    def of(cls, op: OperatorSettings) -> Prepared:
        task = to_task(op)
        inputs = random_inputs(op, task)
        return cls(task, [as_array(tensor) for tensor in inputs], run(task, inputs))

    def error(self, output: np.ndarray) -> float:
        """Largest difference from the expected output, as a share of its largest value; NaN for a NaN."""
        expected = self.expected.astype(np.float64)
        return float(np.abs(output.astype(np.float64) - expected).max() / max(np.abs(expected).max(), 1e-9))

    def is_right(self, output: np.ndarray) -> bool:
        """Whether the output is right up to rounding of its type."""
        limit = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}.get(str(output.dtype), 0.0)
        return self.error(output) <= limit


def random_programs(task: Task, count: int, *, seed: int = 0, checked: bool = True) -> Iterator[tvm.IRModule]:
    """Scheduled modules of `random_candidates`."""
    for candidate in random_candidates(task, count, seed=seed, checked=checked):
        yield candidate.sch.mod


def random_candidates(
    task: Task, count: int, *, seed: int = 0, checked: bool = True
) -> Iterator[ms.MeasureCandidate]:
    """Up to `count` candidates with decisions drawn at random, from each design space of the task in turn.

    They come from the space of foretune's search, or without `checked` from stock's, which has programs
    that TVM compiles to wrong code.
    """
    space = StockSpace(None).generator(TARGET) if checked else "post-order-apply"
    context = make_tune_context(task.mod, TARGET, seed=seed, space=space)
    spaces = design_spaces(context, task.name)
    found = 0
    for draw in range(_DRAWS * count):
        if found == count:
            return
        trace = Trace(spaces[found % len(spaces)].trace.insts, {})
        try:
            candidate = instantiate(context, trace, seed * _DRAWS * count + draw + 1)
        except RejectedError:
            continue
        found += 1
        yield candidate


def tensor_core_programs(task: Task, way: str, count: int) -> Iterator[tvm.IRModule]:
    """Up to `count` random programs of a task for one way to use tensor cores: WMMA or MMA."""
    context = make_tune_context(task.mod, TARGET, seed=0, space=StockSpace(None).generator(TARGET))
    spaces = design_spaces(context, task.name)
    sketches = [space for space in spaces if tensor_core_way(str(space.trace)) == way]
    found = 0
    for draw in range(_DRAWS * count if sketches else 0):
        if found == count:
            return
        trace = Trace(sketches[found % len(sketches)].trace.insts, {})
        try:
            candidate = instantiate(context, trace, draw + 1)
        except RejectedError:
            continue
        assert tensor_core_way(candidate_trace_json(candidate)) == way
        found += 1
        yield candidate.sch.mod
