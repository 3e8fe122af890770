"""Runs templates on arrays of PyTorch: on a GPU, or on a CPU where Triton interprets. Needs Triton."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .attention import Attention, BackToBack
from .compilation import Compiled
from .launches import WORKSPACE
from .problem import DTYPES, Problem, Window
from .rows import NormedProduct, Rows
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


def by_library(problem: Problem, arrays: Sequence[torch.Tensor]) -> torch.Tensor:
    """Output of PyTorch's library calls on the arrays of `random_arrays`, in their data type and layout."""
    import torch
    from torch.nn import functional

    act = getattr(functional, problem.activation, None)
    inputs = list(arrays[:-1])
    if isinstance(problem, Attention):
        return _attention(problem, arrays)
    if isinstance(problem, BackToBack):
        output = inputs.pop(0)
        while inputs:
            matrix, own = inputs.pop(0), inputs.pop(0)
            output = torch.addmm(own, output, matrix)  # one call, whose kernel adds the bias
            output = output if act is None else act(output)
        return output
    there = dict(zip(problem.pointers, arrays, strict=True))
    residual = there.get("residual")
    bias = there["bias"].to(inputs[0].dtype) if "bias" in there else None
    if isinstance(problem, Rows):
        output = there["data"] if bias is None else there["data"] + bias
    elif isinstance(problem, Window):
        # Views with channels last, which is how the arrays lie in memory.
        output = functional.conv2d(
            there["data"].permute(0, 3, 1, 2),
            there["weight"].permute(3, 2, 0, 1),
            bias,
            problem.stride,
            problem.padding,
        ).permute(0, 2, 3, 1)
    elif bias is None:
        output = there["left"] @ there["right"]
    else:
        output = torch.addmm(bias, there["left"], there["right"])
    output = output if residual is None else output + residual.to(output.dtype)
    output = output if act is None else act(output)
    if isinstance(problem, NormedProduct) or (isinstance(problem, Rows) and problem.norm == "layer"):
        scale, shift = (there[name].to(output.dtype) for name in ("scale", "shift"))
        output = functional.layer_norm(output, output.shape[-1:], scale, shift, problem.epsilon)
    elif isinstance(problem, Rows):
        output = functional.softmax(output, -1)
    return output


def _attention(problem: Attention, arrays: Sequence[torch.Tensor]) -> torch.Tensor:
    """Output in the layout of the last array; see `strided`."""
    from torch.nn import functional

    query, key, value, mask = strided(problem, arrays)[:4]
    mask = None if mask is None else mask.to(query.dtype)
    found = functional.scaled_dot_product_attention(query, key, value, mask, scale=problem.scale)
    output = arrays[-1].clone()
    strided(problem, (*arrays[:-1], output))[-1].copy_(found)
    return output


def strided(problem: Attention, arrays: Sequence[torch.Tensor]) -> list[Any]:
    """Views [batch, heads, rows, columns] of query, key, value, mask and output; None for no mask."""
    there = dict(zip(problem.pointers, arrays, strict=True))
    rows = (problem.queries, problem.keys, problem.keys, problem.queries, problem.queries)
    columns = (problem.width, problem.width, problem.width, problem.keys, problem.width)
    return [
        there[name].as_strided(
            (problem.batch, problem.heads, n, width), (of.batch, of.head, of.row, 1), of.start
        )
        if name in there
        else None
        for name, of, n, width in zip(problem.arguments, problem.layouts, rows, columns, strict=True)
    ]
