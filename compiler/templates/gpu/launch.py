"""Runs templates on arrays of PyTorch: on a GPU, or on a CPU where Triton interprets. Needs Triton."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .compilation import Compiled
from .launches import WORKSPACE
from .library import by_library
from .problem import DTYPES, Problem
from .tiling import Tiling

if TYPE_CHECKING:
    import torch


def launch(problem: Problem, tiling: Tiling, arrays: Sequence[torch.Tensor]) -> None:
    """Runs a template; `arrays` have the order and the shapes of `problem.shapes`, the last is written.

    Raises what Triton raises for arrays elsewhere than its device.
    """
    import torch

    there = dict(zip(problem.pointers, arrays, strict=True))
    if (shape := problem.workspace(tiling)) is not None:
        there[WORKSPACE] = torch.empty(shape, dtype=torch.float32, device=arrays[-1].device)
    for one in problem.launches(tiling):
        kernel = getattr(importlib.import_module(f"{__package__}.{one.module}"), one.kernel)
        options = {"num_warps": one.warps, "num_stages": one.stages}
        kernel[one.grid](*one.passed(there), *one.sizes.values(), **one.constants, **options)


def random_arrays(problem: Problem, device: str, seed: int = 0) -> list[torch.Tensor]:
    """Arrays with uniform values in [-0.5, 0.5) in the order of `problem.shapes`; the output is zero."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    *inputs, output = problem.shapes
    drawn = [torch.rand(shape, generator=generator) - 0.5 for shape in inputs]
    types = [getattr(torch, DTYPES[dtype]) for dtype in problem.types.values()]
    arrays = (*drawn, torch.zeros(output))
    return [array.to(dtype).to(device) for array, dtype in zip(arrays, types, strict=True)]


def latency_s(problem: Problem, compiled: Compiled) -> float:
    """Median seconds of a run on this machine's GPU, with flushed caches (`profiler.Measure`)."""
    arrays = random_arrays(problem, "cuda")
    return _median_s(lambda: launch(problem, compiled.tiling, arrays))


def library_latency_s(problem: Problem) -> float:
    """Median seconds of `by_library` on this machine's GPU, timed as `latency_s` does."""
    arrays = random_arrays(problem, "cuda")
    return _median_s(lambda: by_library(problem, arrays))


def compiler_latency_s(problem: Problem) -> float:
    """Median seconds of `by_library` as `torch.compile` tunes it on this machine's GPU, timed alike."""
    import torch

    torch.compiler.reset()  # it keeps few variants of one function
    arrays = random_arrays(problem, "cuda")
    tuned = torch.compile(by_library, mode="max-autotune-no-cudagraphs", fullgraph=True, dynamic=False)
    return _median_s(lambda: tuned(problem, arrays))


def _median_s(call: Callable[[], object]) -> float:
    """Median seconds of the kernels of a call, without their launches from Python, which take longer."""
    import torch

    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):  # compiles and allocates, which a graph cannot record
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    testing = importlib.import_module("triton.testing")
    return float(testing.do_bench(graph.replay, return_mode="median")) / 1e3
