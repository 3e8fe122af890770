"""Runs templates on arrays of PyTorch: on a GPU, or on a CPU where Triton interprets. Needs Triton."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .compilation import Compiled
from .problem import Problem
from .tiling import Tiling

if TYPE_CHECKING:
    import torch

DTYPES = {"fp16": "float16", "bf16": "bfloat16"}
"""PyTorch's name of a data type by Triton's."""


def launch(problem: Problem, tiling: Tiling, arrays: Sequence[torch.Tensor]) -> None:
    """Runs a template; `arrays` have the order and the shapes of `problem.shapes`, the last is written.

    Raises what Triton raises for arrays elsewhere than its device.
    """
    kernel = getattr(importlib.import_module(f"{__package__}.kernels"), problem.kernel)
    options = {"num_warps": tiling.warps, "num_stages": tiling.stages}
    kernel[problem.grid(tiling)](*arrays, *problem.sizes.values(), **problem.constants(tiling), **options)


def random_arrays(problem: Problem, device: str, seed: int = 0) -> list[torch.Tensor]:
    """Arrays with uniform values in [-0.5, 0.5) in the order of `problem.shapes`; the output is zero."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    dtype = getattr(torch, DTYPES[problem.dtype])
    *inputs, output = problem.shapes
    drawn = [torch.rand(shape, generator=generator) - 0.5 for shape in inputs]
    return [array.to(dtype).to(device) for array in (*drawn, torch.zeros(output))]


def latency_s(problem: Problem, compiled: Compiled) -> float:
    """Median seconds of a run on this machine's GPU, with flushed caches (`profiler.Measure`)."""
    testing = importlib.import_module("triton.testing")
    arrays = random_arrays(problem, "cuda")
    milliseconds = testing.do_bench(lambda: launch(problem, compiled.tiling, arrays), return_mode="median")
    return float(milliseconds) / 1e3
